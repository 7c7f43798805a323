package view

import (
	"context"
	"slices"

	tea "charm.land/bubbletea/v2"
)

// Screen is what the screen shows.
type Screen struct {
	now           Newest
	width, height int
	columns       []column // that some member has a value of
	sort          int      // of columns
	reverse       bool
	first         int // of the members on the screen
}

// RunScreen shows what a watcher knows until the user quits or ctx ends.
func RunScreen(ctx context.Context, w *Watcher, options ...tea.ProgramOption) error {
	options = append(options, tea.WithContext(ctx), tea.WithoutSignalHandler())
	p := tea.NewProgram(Screen{width: 80, height: 24}, options...)
	ctx, stop := context.WithCancel(ctx)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for ctx.Err() == nil {
			var now Newest
			changed := w.Look(func(n *Newest) { now = n.clone() })
			p.Send(now)
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}()
	_, err := p.Run()
	stop()
	<-fed
	return err
}

// Init does nothing: views come by themselves.
func (Screen) Init() tea.Cmd { return nil }

// Update takes in a view, a key or the size of the terminal.
func (m Screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case Newest:
		m.now = msg
		m.columns = filled(msg.Members)
		m.sort = min(m.sort, max(0, len(m.columns)-1))
		m.order()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m.key(msg.String())
	}
	return m, nil
}

func (m Screen) key(key string) (tea.Model, tea.Cmd) {
	switch key {
	case "q", "ctrl+c", "esc":
		return m, tea.Quit
	case "s":
		m.sort = (m.sort + 1) % max(1, len(m.columns))
	case "r":
		m.reverse = !m.reverse
	case "down", "j":
		m.first++
	case "up", "k":
		m.first--
	case "pgdown", "space":
		m.first += m.height / 2
	case "pgup":
		m.first -= m.height / 2
	case "home":
		m.first = 0
	}
	m.first = max(0, min(m.first, len(m.now.Members)-1))
	m.order()
	return m, nil
}

// order sorts the members, those without a value at the end.
func (m *Screen) order() {
	if len(m.columns) == 0 {
		return
	}
	c := m.columns[m.sort]
	m.now.Members = slices.Clone(m.now.Members)
	slices.SortStableFunc(m.now.Members, func(a, b Member) int {
		if empty := c.text(a) == ""; empty != (c.text(b) == "") {
			if empty {
				return 1
			}
			return -1
		}
		order := c.compare(a, b)
		if m.reverse {
			order = -order
		}
		return order
	})
}
