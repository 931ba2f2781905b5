package ui

import (
	"fmt"
	"strings"
	"time"

	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/view"
)

// The size of the picture of a rollout, and where its axes are.
const (
	chartLeft, chartRight = 40, 600
	chartTop, chartBottom = 16, 116
)

// chart is the picture of a rollout.
type chart struct {
	*view.Rollout
	// Line is the path of the pods that are ready, Area the area below it, Guess the line to the end at this rate.
	Line, Area, Guess string
	// NowX and NowY are the end of the line.
	NowX, NowY int
	Ticks      []tick
	Label      string
}

// tick is a time on the axis.
type tick struct {
	X    int
	Text string
}

// newChart returns the picture of a rollout, nil for none.
func newChart(r *view.Rollout) *chart {
	if r == nil || r.Wanted == 0 || r.Elapsed < time.Second {
		return nil
	}
	whole := r.Elapsed + r.Left
	x := func(at time.Duration) int {
		return chartLeft + int(int64(chartRight-chartLeft)*int64(min(at, whole)/time.Millisecond)/int64(max(1, whole/time.Millisecond)))
	}
	y := func(n int) int { return chartBottom - (chartBottom-chartTop)*min(n, r.Wanted)/r.Wanted }
	var line strings.Builder
	fmt.Fprintf(&line, "M%d %d", chartLeft, chartBottom)
	for i, at := range r.Ready {
		fmt.Fprintf(&line, "H%dV%d", x(at), y(i+1))
	}
	c := &chart{Rollout: r, NowX: x(r.Elapsed), NowY: y(len(r.Ready))}
	fmt.Fprintf(&line, "H%d", c.NowX)
	c.Line = line.String()
	c.Area = c.Line + fmt.Sprintf("V%dZ", chartBottom)
	c.Label = fmt.Sprintf("%d of %s of version %s are ready after %s", len(r.Ready), message.Count(r.Wanted, "pod"), r.Version, view.CoarseDuration(r.Elapsed))
	if r.Left > 0 {
		c.Guess = fmt.Sprintf("M%d %dL%d %d", c.NowX, c.NowY, chartRight, chartTop)
		c.Label += "; at this rate, all of them in " + view.CoarseDuration(r.Left)
	}
	step := time.Minute
	for whole/step > 8 {
		step *= 2
	}
	for at := time.Duration(0); at <= whole; at += step {
		c.Ticks = append(c.Ticks, tick{x(at), fmt.Sprintf("%d min", at/time.Minute)})
	}
	return c
}
