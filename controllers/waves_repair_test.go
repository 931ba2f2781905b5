package controllers

import (
	"testing"

	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/test/play"
)

// TestWavesRepairStalledApps has Apps stall with broken defaults that they took with changes of their own, and corrects the defaults: the Apps take these after
// all others, and only one of them at a time. An App that stalls once more stops nothing.
func TestWavesRepairStalledApps(t *testing.T) {
	for name, c := range map[string]struct {
		// broken are the Apps with a change of their own, and hopeless those that stall with any defaults.
		broken, hopeless []string
	}{
		"by the defaults":  {broken: []string{"web-0", "web-2"}},
		"by their own":     {broken: []string{"web-0", "web-2"}, hopeless: []string{"web-0", "web-2"}},
		"one of each":      {broken: []string{"web-1", "web-2"}, hopeless: []string{"web-1"}},
		"all of the fleet": {broken: []string{"web-0", "web-1", "web-2", "web-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 4, plainApp, inWaves("1", "1", "0s"))
			f.setDefaults("platform", inWaves("broken", "1", "0s"))
			for _, broken := range c.broken {
				app := &stored.App{}
				app.Name = broken
				f.read(app)
				app.Generation++
				mustUnmarshal(t, &app.Spec, `{"image":"nginx:2","replicas":1}`)
				f.update(app)
				f.app(broken)
				f.setPods(broken, play.SetTimedOut)
				f.app(broken)
			}
			f.setDefaults("platform", inWaves("3", "1", "0s"))
			f.most = 0
			f.waveWith(1, c.broken...)
			if got := len(f.with("3")); got != 1 {
				t.Errorf("the first wave has %d Apps", got)
			}
			f.waveWith(8, c.hopeless...)
			if got := len(f.with("3")); got != len(f.names) || f.rolledOut() != "True/RolledOut" {
				t.Errorf("%d Apps have the defaults: %s", got, f.rolledOut())
			}
			f.requests = nil
			if again := f.look(); again != 0 || len(f.requests) > 0 {
				t.Errorf("at rest, it writes %q and looks again in %s", f.requests, again)
			}
			f.setDefaults("platform", inWaves("4", "1", "0s"))
			f.waveWith(10, c.hopeless...)
			if got := len(f.with("4")); got != len(f.names) || f.rolledOut() != "True/RolledOut" {
				t.Errorf("%d Apps have the next defaults: %s", got, f.rolledOut())
			}
		})
	}
}
