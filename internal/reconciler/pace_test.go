package reconciler

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// churn has resources want a write again and again, each when it is told to come again and no later than after a pause, and returns how
// many writes there are in a number of seconds, by resource.
func churn(p *paces, namespace string, resources int, figures bool, pause time.Duration, seconds int) map[int]int {
	began := time.Unix(1e9, 0)
	writes, again := map[int]int{}, map[int]time.Time{}
	for now := began; now.Before(began.Add(time.Duration(seconds) * time.Second)); now = now.Add(10 * time.Millisecond) {
		for i := range resources {
			if now.Before(again[i]) && now.Sub(began)%pause != 0 {
				continue
			}
			name := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
			if wait := p.writeDelay(name, figures, now); wait > 0 {
				again[i] = now.Add(wait)
				continue
			}
			p.noteWrite(name, now)
			writes[i]++
			again[i] = now.Add(pause)
		}
	}
	return writes
}

// TestPaceUnderChurn has statuses change ten times a second for a minute, as those of UnitedDeployments of one Deployment do: each is
// written at most once a second, however many there are, a namespace has a share, and none is left out.
func TestPaceUnderChurn(t *testing.T) {
	const seconds = 60
	for name, c := range map[string]struct {
		resources int
		figures   bool
		// each are the most writes of one resource, all those of the namespace.
		each, all int
	}{
		"figures of one":             {1, true, seconds + 1, seconds + 1},
		"figures of twenty":          {20, true, seconds + 1, 20 * (seconds + 2)},
		"figures of a thousand":      {1000, true, 3, figuresOfNamespace * (seconds + 2)},
		"conditions of one":          {1, false, hastyMost + 1 + seconds, hastyMost + 1 + seconds},
		"conditions of fifty":        {50, false, hastyMost + 1 + seconds, 50*(hastyMost+1) + figuresOfNamespace*(seconds+2)},
		"conditions of five hundred": {500, false, hastyMost + 1 + seconds, 500*(hastyMost+1) + figuresOfNamespace*(seconds+2)},
	} {
		t.Run(name, func(t *testing.T) {
			var p paces
			writes := churn(&p, "busy", c.resources, c.figures, 100*time.Millisecond, seconds)
			all := 0
			for i := range c.resources {
				all += writes[i]
				if writes[i] > c.each || writes[i] == 0 {
					t.Fatalf("resource %d is written %d times in %d s, want 1 to %d", i, writes[i], seconds, c.each)
				}
			}
			if all > c.all {
				t.Errorf("%d writes in %d s, want at most %d", all, seconds, c.all)
			}
			t.Logf("%d writes in %d s", all, seconds)
			if other := churn(&p, "other", 1, true, 100*time.Millisecond, 10); other[0] < 9 {
				t.Errorf("a resource of another namespace is written %d times in 10 s", other[0])
			}
		})
	}
}

// TestPaceOfRollout has the conditions of a resource written at once where they change a few times, and the figures once a second.
func TestPaceOfRollout(t *testing.T) {
	var p paces
	name, now := types.NamespacedName{Namespace: "a", Name: "web"}, time.Unix(1e9, 0)
	for i := range hastyMost {
		if wait := p.writeDelay(name, false, now); wait != 0 {
			t.Fatalf("write %d waits for %s", i, wait)
		}
		p.noteWrite(name, now)
		if wait := p.writeDelay(name, true, now); wait != figureInterval {
			t.Fatalf("figures wait for %s", wait)
		}
		now = now.Add(100 * time.Millisecond)
	}
	now = now.Add(figureInterval)
	if wait := p.writeDelay(name, true, now); wait != 0 {
		t.Errorf("figures wait for %s after a second", wait)
	}
}

// TestForgets checks that nothing is remembered of a resource that is gone, nor of a namespace without resources.
func TestForgets(t *testing.T) {
	var p paces
	one, two, other := types.NamespacedName{Namespace: "a", Name: "one"}, types.NamespacedName{Namespace: "a", Name: "two"}, types.NamespacedName{Namespace: "b", Name: "one"}
	for _, name := range []types.NamespacedName{one, two, other} {
		p.noteWrite(name, time.Unix(1, 0))
	}
	for _, name := range []types.NamespacedName{one, one, two} {
		p.forgetResource(name)
	}
	if len(p.resources) != 1 || p.resources[other] == nil || len(p.namespaces) != 1 || p.namespaces["b"].resources != 1 {
		t.Errorf("remembered are %v and %v, want b/one alone", p.resources, p.namespaces)
	}
}

// TestPaceOfNewResource has a thousand resources of a namespace use all its slots. The first statuses of a new resource are written at once,
// there and in another namespace, where figures wait for nothing either.
func TestPaceOfNewResource(t *testing.T) {
	var p paces
	now := time.Unix(1000, 0)
	name := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	for i := range 1000 {
		p.noteWrite(name("busy", fmt.Sprint(i)), now)
		p.writeDelay(name("busy", fmt.Sprint(i)), true, now)
	}
	if wait := p.writeDelay(name("busy", "0"), true, now); wait <= 0 {
		t.Error("the namespace has slots")
	}
	for _, c := range []struct {
		namespace string
		figures   bool
	}{{"busy", false}, {"other", false}, {"other", true}} {
		if wait := p.writeDelay(name(c.namespace, "new"), c.figures, now); wait > 0 {
			t.Errorf("a status in namespace %s (figures: %t) waits for %s", c.namespace, c.figures, wait)
		}
	}
}

// TestPaceOfClockJump sets the clock forward and back. A change of conditions is written at once, and figures wait no longer than before.
func TestPaceOfClockJump(t *testing.T) {
	p, now := &paces{}, time.Now()
	name := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("app-", i)}
	}
	const resources = 2 * figuresOfNamespace
	for _, jump := range []time.Duration{0, 24 * time.Hour, -48 * time.Hour, time.Hour, -time.Hour} {
		now = now.Add(jump)
		for i := range resources {
			if wait := p.writeDelay(name(i), false, now); wait > 0 {
				t.Errorf("after a jump of %s, conditions wait %s", jump, wait)
			}
			p.noteWrite(name(i), now)
			if wait, most := p.writeDelay(name(i), true, now), figureInterval*(2+resources/figuresOfNamespace); wait > most {
				t.Errorf("after a jump of %s, figures wait %s, at most %s are needed", jump, wait, most)
			}
		}
		now = now.Add(time.Minute)
	}
}
