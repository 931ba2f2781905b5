// Command chart draws what `make bench` has measured: chart <bench.json> <picture.svg>.
//
// It is a module of its own, so that what draws is not among what the operator is made of.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: chart <bench.json> <picture.svg>")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// report is what of test/bench's is drawn.
type report struct {
	Measures []series `json:"measures"`
}

type series struct {
	Name   string    `json:"name"`
	Apps   float64   `json:"apps"`
	Of     string    `json:"of"`
	Values []float64 `json:"values"`
}

// panel is one of the pictures: some figures by the number of Apps.
type panel struct {
	title, unit string
	lines       []line
}

// line is one figure: of what, and how it is called in the legend.
type line struct{ name, of, label string }

var panels = [][]panel{
	{
		{"Created at once", "Apps a second", []line{
			{"burst", "floor A", "plain client"}, {"burst", "floor B", "server-side apply"}, {"burst", "manager", "app-operator"},
			{"burst, headless Services", "manager", "the same, headless Services"},
		}},
		{"Created at once, against the floors", "×", []line{
			{"burst", "manager ÷ floor A", "÷ plain client"}, {"burst", "manager ÷ floor B", "÷ server-side apply"},
			{"change", "manager ÷ floor B", "image changed, ÷ server-side apply"},
		}},
	},
	{
		{"From an App to its children, all created at once", "seconds", []line{
			{"burst, p50", "manager", "p50"}, {"burst, p99", "manager", "p99"},
		}},
		{"Memory of the manager", "MiB", []line{
			{"memory, most", "manager", "the most it had"}, {"memory, settled", "manager", "settled"}, {"memory, at rest", "manager", "at rest"},
		}},
	},
}

func run(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	// The many may have been measured before the few.
	slices.SortStableFunc(r.Measures, func(a, b series) int { return cmp.Compare(a.Apps, b.Apps) })
	if len(r.ticks()) == 0 {
		fmt.Fprintf(os.Stderr, "chart: %s: nothing to draw, as BenchmarkLife was not measured\n", from)
		return nil
	}
	plots, legends := make([][]*plot.Plot, len(panels)), make([][]plot.Legend, len(panels))
	for i, row := range panels {
		for _, p := range row {
			drawn, err := p.plot(&r)
			if err != nil {
				return fmt.Errorf("%s: %w", p.title, err)
			}
			legend := drawn.Legend
			drawn.Legend = plot.NewLegend()
			plots[i], legends[i] = append(plots[i], drawn), append(legends[i], legend)
		}
	}
	canvas := vgsvg.New(26*vg.Centimeter, 23*vg.Centimeter)
	tiles := draw.Tiles{
		Rows: len(panels), Cols: len(panels[0]), PadX: vg.Centimeter, PadY: legendHeight + vg.Centimeter,
		PadTop: vg.Millimeter, PadRight: vg.Centimeter, PadBottom: legendHeight,
	}
	for i, row := range plot.Align(plots, tiles, draw.New(canvas)) {
		for j := range row {
			plots[i][j].Draw(row[j])
			below := row[j]
			below.Max.Y, below.Min.Y = below.Min.Y-vg.Millimeter, below.Min.Y-legendHeight
			legends[i][j].Draw(below)
		}
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	return os.WriteFile(to, bytes.ReplaceAll(svg.Bytes(), []byte(fontOfGonum), []byte(fonts)), 0o644)
}

// A browser that lacks gonum's font takes one whose letters are as wide, or any with serifs.
const (
	fontOfGonum = "font-family:Liberation Serif;"
	fonts       = "font-family:'Liberation Serif','Times New Roman',Times,serif;"
)

// legendHeight is the room below a panel, for the most lines that one has. The legend is not in the panel: its texts are as long as the
// reader's font has them, and would lie over the lines.
const legendHeight = 2.4 * vg.Centimeter

// margin is the room left and right of the points, on a logarithmic scale.
const margin = 1.2

// plot draws a panel: of each figure the median of the rounds, and from where to where they went.
func (p *panel) plot(r *report) (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.title, "Apps", p.unit
	drawn.X.Scale, drawn.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(r.ticks())
	drawn.Y.Min = 0
	drawn.Legend.Top, drawn.Legend.Left, drawn.Legend.Padding = true, true, vg.Points(3)
	drawn.Add(plotter.NewGrid())
	for i, l := range p.lines {
		points := r.points(l.name, l.of)
		if len(points.XYs) == 0 {
			continue
		}
		path, marks, err := plotter.NewLinePoints(points.XYs)
		if err != nil {
			return nil, err
		}
		spread, err := plotter.NewYErrorBars(points)
		if err != nil {
			return nil, err
		}
		path.Color, marks.Color, spread.Color = plotutil.Color(i), plotutil.Color(i), plotutil.Color(i)
		marks.Shape = plotutil.Shape(i)
		path.Width = vg.Points(1.5)
		drawn.Add(path, marks, spread)
		drawn.Legend.Add(l.label, path, marks)
	}
	// The same for all panels, also for one without a measurement.
	ticks := r.ticks()
	drawn.X.Min, drawn.X.Max = ticks[0].Value/margin, ticks[len(ticks)-1].Value*margin
	drawn.Y.Max = max(drawn.Y.Max, 0.1) * 1.05
	return drawn, nil
}

// points are a figure's by the number of Apps.
type points struct {
	plotter.XYs
	plotter.YErrors
}

func (r *report) points(name, of string) points {
	var found points
	for _, s := range r.Measures {
		if s.Name != name || s.Of != of {
			continue
		}
		ordered := slices.Sorted(slices.Values(s.Values))
		median := (ordered[(len(ordered)-1)/2] + ordered[len(ordered)/2]) / 2
		found.XYs = append(found.XYs, plotter.XY{X: s.Apps, Y: median})
		found.YErrors = append(found.YErrors, struct{ Low, High float64 }{median - ordered[0], ordered[len(ordered)-1] - median})
	}
	return found
}

// ticks are the numbers of Apps that were measured.
func (r *report) ticks() []plot.Tick {
	var ticks []plot.Tick
	for _, p := range r.points("memory, most", "manager").XYs {
		ticks = append(ticks, plot.Tick{Value: p.X, Label: fmt.Sprintf("%.0f", p.X)})
	}
	return ticks
}
