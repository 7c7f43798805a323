package p2pdiloco

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/api"
)

const dashboard = "examples/grafana/dashboard.json"

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

// The dashboard asks for metrics that there are, by labels that they have, in panels that do not
// overlap. Prometheus adds the labels job and instance.
func TestDashboard(t *testing.T) {
	b, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil || d.SchemaVersion == 0 || len(d.Panels) < 10 {
		t.Fatalf("%v: version %d, %d panels", err, d.SchemaVersion, len(d.Panels))
	}
	labels := map[string][]string{}
	for _, f := range full().Figures() {
		labels[api.MetricPrefix+f.Name] = append([]string{"job", "instance"}, slices.Collect(maps.Keys(f.Labels))...)
	}
	metric := regexp.MustCompile(api.MetricPrefix + `[a-z_]+`)
	label := regexp.MustCompile(`(?:\{|,)(\w+)=|(?:by|on|group_left) \(([\w, ]+)\)|\{\{(\w+)\}\}`)
	check := func(where, expr, legend string) {
		names := metric.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s: %q asks for nothing", where, expr)
		}
		var has []string // any of them
		for _, name := range names {
			if has = append(has, labels[name]...); labels[name] == nil {
				t.Errorf("%s: there is no %s", where, name)
			}
		}
		for _, m := range label.FindAllStringSubmatch(expr+legend, -1) {
			for used := range strings.SplitSeq(m[1]+m[2]+m[3], ", ") {
				if !slices.Contains(has, used) {
					t.Errorf("%s: %v have the labels %v, and not %s", where, names, has, used)
				}
			}
		}
	}
	for i, p := range d.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr, target.LegendFormat)
		}
		for _, other := range d.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if p.ID == other.ID || a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies on %q", p.Title, other.Title)
			}
		}
		if p.GridPos.W <= 0 || p.GridPos.X+p.GridPos.W > 24 || p.Type == "" || p.Title == "" {
			t.Errorf("panel %d: %+v", p.ID, p)
		}
	}
	for _, v := range d.Templating.List {
		if strings.HasPrefix(v.Query, "label_values(") {
			check(v.Name, v.Query, "")
		}
	}
}
