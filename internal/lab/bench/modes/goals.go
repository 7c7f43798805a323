package modes

import "fmt"

// Goal is one of the figures that a mode should reach, beside the one measured.
type Goal struct {
	What     string  `json:"what"`
	Most     float64 `json:"at_most"` // a share: .01 is 1%
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
	Percent  bool    `json:"-"` // how it is printed
}

// overReference are the goals of mode sync against data-parallel training, by the number of peers
// and of inner steps up to which they hold.
var overReference = []struct {
	peers int
	steps uint64
	most  float64
}{{4, 10, .006}, {4, 50, .010}, {4, 100, .015}, {8, 50, .018}}

// codecsOverF32 are those of the codecs against mode sync with f32, for so many peers and up to so
// many inner steps.
var codecsOverF32 = []struct {
	codec string
	most  float64
}{{"int4", .001}, {"sign", .002}}

const (
	codecPeers = 4
	codecSteps = 25
)

const (
	streamingOverSync = .002
	overlapOverSync   = .008
	overlapStall      = .02
	asyncOfSync       = .45
	// The peak of P fragments is 1/P; samples of it are a quarter off.
	peakSlack = 1.25
)

// goals are those for which there is a measurement. They hold only for the numbers of peers and
// inner steps that they were found with.
func (r *Result) goals() (goals []Goal) {
	add := func(what string, most float64, measured *float64, percent bool) {
		if measured != nil {
			goals = append(goals, Goal{what, most, *measured, *measured <= most, percent})
		}
	}
	value := func(row string, of func(*Row) *float64) *float64 {
		if x := r.row(row); x != nil {
			return of(x)
		}
		return nil
	}
	overSync := func(x *Row) *float64 { return x.OverSync }
	for _, g := range overReference {
		if g.peers == r.Peers && r.InnerSteps <= g.steps {
			add(fmt.Sprintf("sync: loss over data-parallel, %d peers, up to %d inner steps", g.peers, g.steps), g.most,
				value(modeSync, func(x *Row) *float64 { return x.OverReference }), true)
			break
		}
	}
	add("streaming: loss over sync", streamingOverSync, value(modeStreaming, overSync), true)
	add("streaming: peak bandwidth against sync's", peakSlack/fragments,
		value(modeStreaming, func(x *Row) *float64 { return x.Peak }), false)
	for _, mode := range []string{modeDelayed, modeEager} {
		add(mode+": loss over sync", overlapOverSync, value(mode, overSync), true)
	}
	for _, mode := range []string{modeDelayed, modeEager, modeStreaming} {
		if r.Links != nil {
			add(mode+": stall share", overlapStall, value(mode, func(x *Row) *float64 { return x.Stall }), true)
		}
	}
	for _, g := range codecsOverF32 {
		if r.Peers == codecPeers && r.InnerSteps <= codecSteps {
			add(fmt.Sprintf("codec %s: loss over f32, %d peers, up to %d inner steps", g.codec, codecPeers, codecSteps),
				g.most, value(codecRow(g.codec), overSync), true)
		}
	}
	for _, race := range r.Races {
		add(fmt.Sprintf("%s: time to the same loss against sync's", race.Row), asyncOfSync, &race.Ratio, false)
	}
	return goals
}
