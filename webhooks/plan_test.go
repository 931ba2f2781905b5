package webhooks

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
)

// TestPaces has a namespace ask for plans all the time, by many clients at once: it has five a second, one at a time, and another
// namespace gets each of its own at once. Time is that of synctest.
func TestPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience, takes, lasts = 400 * time.Millisecond, 150 * time.Millisecond, 10 * time.Second
		p := newPaces(maxPlans, 1, planRate)
		var running, most, made, refused atomic.Int32
		var loops sync.WaitGroup
		begin := time.Now()
		for range 50 {
			loops.Go(func() {
				for time.Since(begin) < lasts {
					done, ok := p.beginTurn(t.Context(), "loop", patience)
					if !ok {
						refused.Add(1)
						<-time.After(10 * time.Millisecond)
						continue
					}
					if now := running.Add(1); now > most.Load() {
						most.Store(now)
					}
					<-time.After(takes)
					running.Add(-1)
					made.Add(1)
					done()
				}
			})
		}
		for time.Since(begin) < lasts-time.Second {
			asked := time.Now()
			done, ok := p.beginTurn(t.Context(), "quiet", patience)
			if waited := time.Since(asked); !ok || waited > 0 {
				t.Errorf("the other namespace has waited %s: %t", waited, ok)
			}
			if ok {
				<-time.After(takes)
				done()
			}
			<-time.After(time.Second)
		}
		loops.Wait()
		if most.Load() != 1 {
			t.Errorf("%d plans of a namespace were made at once", most.Load())
		}
		seconds := int32(lasts / time.Second)
		if n := made.Load(); n > 5*seconds+int32(planRate.burst)+5 || n < 4*seconds || refused.Load() == 0 {
			t.Errorf("%d plans were made in %d seconds, %d were refused", n, seconds, refused.Load())
		}
	})
}

// TestPacesAreForgotten has plans of many namespaces: those without one of late take no memory.
func TestPacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaces(maxPlans, 1, planRate)
		for i := range 10 * maxPaces {
			done, ok := p.beginTurn(t.Context(), fmt.Sprint(i), time.Second)
			if !ok {
				t.Fatalf("namespace %d has no turn", i)
			}
			done()
			<-time.After(planRate.interval)
		}
		if n := len(p.namespaces); n > maxPaces+1 {
			t.Errorf("%d namespaces are remembered", n)
		}
	})
}

// TestTwoPlansAtOnce has three namespaces ask at once: the third has to wait, and is told so after its patience.
func TestTwoPlansAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaces(maxPlans, 1, planRate)
		first, ok := p.beginTurn(t.Context(), "a", time.Second)
		second, ok2 := p.beginTurn(t.Context(), "b", time.Second)
		if !ok || !ok2 {
			t.Fatal("two plans are not made at once")
		}
		if _, ok := p.beginTurn(t.Context(), "c", time.Second); ok {
			t.Error("three plans are made at once")
		}
		first()
		third, ok := p.beginTurn(t.Context(), "c", time.Second)
		if !ok {
			t.Fatal("the third has no turn after the first has ended")
		}
		second()
		third()
	})
}

// TestReadAnnotationsChangePlans changes each annotation that reconciles read alone: a dry run of the change has a plan. Another annotation
// changes none.
func TestReadAnnotationsChangePlans(t *testing.T) {
	withAnnotation := func(name string) storedResource[*appv1.App] {
		app := &stored.App{}
		app.Annotations = map[string]string{name: "u"}
		return app
	}
	for _, name := range append(stored.ReadAnnotations(), "example.com/a") {
		if got, want := changesPlan(&stored.App{}, withAnnotation(name)), name != "example.com/a"; got != want {
			t.Errorf("%s changes a plan is %t", name, got)
		}
	}
}
