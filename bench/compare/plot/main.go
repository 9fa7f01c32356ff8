// Command plot draws the figures of a measurement, be it bench, bench -scale or the
// comparison: plot FIGURES.json FOLDER.
package main

import (
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: plot FIGURES.json FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(file, folder string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var figures map[string]float64
	if err := json.Unmarshal(content, &figures); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	drawn := 0
	for _, c := range charts() {
		if c.names = c.measured(figures); len(c.names) == 0 {
			continue
		}
		if err := c.draw(figures, folder); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		drawn++
	}
	if drawn == 0 {
		return fmt.Errorf("%s has no figure that is drawn: use what bench, bench -scale or the comparison writes", file)
	}
	return nil
}

// chart is bars for each of what was measured, one for each series. The figures' keys are
// prefix, name and the series' key.
type chart struct {
	name, title, y string
	logarithmic    bool
	least          float64 // of the axis
	prefix         string
	names          []string
	series         []series
}

type series struct {
	label, key string
	color      color.Color
}

func charts() []chart {
	light, dark, red := color.RGBA{158, 188, 218, 255}, color.RGBA{49, 105, 158, 255}, color.RGBA{178, 62, 62, 255}
	lateness := []series{{"p50", "_p50_ms", light}, {"p99", "_p99_ms", dark}, {"max", "_max_ms", red}}
	paths, steps := []string{"raw", "exact", "arbitrary"}, []string{"park", "promote"}
	contenders := []string{"raw", "bridge", "mixed", "ladder", "asynq", "river"}
	return []chart{
		{"bench-lateness.svg", "1,000/s, delays of 1 s (arbitrary: 1 to 5 s)", "late, ms", true, 0.1, "", paths, lateness},
		{"bench-throughput.svg", "30,000 as fast as they are taken", "delivered per second", false, 0, "", paths, []series{
			{"", "_delivered_per_s", dark},
		}},
		{"scale-rates.svg", "60,000 parked, 100,000 promoted", "per second", false, 0, "", steps, []series{
			{"bare", "_bare_per_s", light}, {"ours", "_per_s", dark},
		}},
		{"compare-lateness.svg", "1,000/s, random delays of 2 to 12 s", "late, ms", true, 0.1, "compare_", contenders, lateness},
		{"compare-burst.svg", "60,000 due in the same second", "delivered per second", false, 0, "compare_", contenders, []series{
			{"", "_burst_delivered_per_s", dark},
		}},
	}
}

// measured returns those of the chart's names of which there are figures.
func (c chart) measured(figures map[string]float64) (names []string) {
	for _, name := range c.names {
		if _, ok := figures[c.prefix+name+c.series[0].key]; ok {
			names = append(names, name)
		}
	}
	return names
}

const barWidth = 14 * vg.Millimeter / 3

func (c chart) draw(figures map[string]float64, folder string) error {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = c.title, c.y
	p.Legend.Top, p.Legend.Left = true, true
	p.NominalX(c.names...)
	if c.logarithmic {
		p.Y.Scale, p.Y.Tick.Marker = fromLeast{}, plot.LogTicks{Prec: -1}
	}
	p.Y.Min = c.least
	for i, s := range c.series {
		values := make(plotter.Values, len(c.names))
		for n, name := range c.names {
			// What is early, or within the first step of the axis, has no height.
			values[n] = max(c.least, figures[c.prefix+name+s.key])
		}
		bars, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return err
		}
		bars.LineStyle.Width, bars.Color = 0, s.color
		bars.Offset = barWidth * vg.Length(2*i-len(c.series)+1) / 2
		p.Add(bars)
		if s.label != "" {
			p.Legend.Add(s.label, bars)
		}
	}
	p.X.Min, p.X.Max = -0.5, float64(len(c.names))-0.5
	p.Y.Min = c.least // adding bars has lowered it to 0
	return p.Save(18*vg.Centimeter, 9*vg.Centimeter, filepath.Join(folder, c.name))
}

// fromLeast is a logarithmic scale on which what is less than the axis' minimum
// is at its foot. The library's own ends with a panic at a bar's foot, which is 0.
type fromLeast struct{}

// Normalize implements plot.Normalizer.
func (fromLeast) Normalize(least, most, x float64) float64 {
	return math.Log(max(x, least)/least) / math.Log(most/least)
}
