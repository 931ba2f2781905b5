package workload

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clocktesting "k8s.io/utils/clock/testing"
)

// newPodKey returns the key of an App.
func newPodKey(namespace, name string) Key {
	return Key{Manager: "app", Owner: types.NamespacedName{Namespace: namespace, Name: name}, Workload: name}
}

// TestPodReadingsAreBounded has workloads that are reconciled each second of an hour, and compares the numbers of readings with limits.
func TestPodReadingsAreBounded(t *testing.T) {
	const hour = 3600
	for name, c := range map[string]struct {
		workloads   int
		step        func(p *PodCauses, key Key, second int)
		least, most int
	}{
		"one workload": {1, nil, 12, 30},
		"a thousand":   {1000, nil, hour, hour*podReadings + podReadingsAtOnce},
		"one that is ready by turns": {1, func(p *PodCauses, key Key, second int) {
			if second%2 == 1 {
				p.noteReady(key)
			}
		}, hour / 60, hour / 10},
		"one with a clock that is set back": {1, func(p *PodCauses, _ Key, second int) {
			if second == hour/2 {
				p.clock.(*clocktesting.FakePassiveClock).SetTime(time.Unix(0, 0))
			}
		}, 12, 50},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Unix(1<<30, 0))
			p, readings := NewPodCauses(clock), 0
			for second := range hour {
				for i := range c.workloads {
					key := newPodKey("busy", fmt.Sprint(i))
					if p.beginReading(key) {
						readings++
					}
					if again := p.recallCauses(key).again; again <= 0 || again > lastPodInterval {
						t.Fatalf("the pods are read again after %s", again)
					}
					if c.step != nil {
						c.step(p, key, second)
					}
				}
				clock.SetTime(clock.Now().Add(time.Second))
			}
			if readings < c.least || readings > c.most {
				t.Errorf("%d readings, want %d to %d", readings, c.least, c.most)
			}
			if !p.beginReading(newPodKey("quiet", "web")) {
				t.Error("a workload in another namespace waits")
			}
			for i := range c.workloads {
				p.ForgetOwner("app", newPodKey("busy", fmt.Sprint(i)).Owner)
			}
			p.ForgetOwner("app", newPodKey("quiet", "web").Owner)
			if len(p.owners) != 0 {
				t.Errorf("%d owners are remembered that are gone", len(p.owners))
			}
			clock.SetTime(clock.Now().Add(podBudgetIdle))
			if !p.beginReading(newPodKey("next", "web")) || len(p.namespaces) != 1 {
				t.Errorf("%d namespaces have a budget although one has a reading", len(p.namespaces))
			}
		})
	}
}

// TestPodCausesOfRenamedWorkloads has an owner name another workload a thousand times, in ways in which a workload ends: the memory has one workload at most. The
// readings are limited all the same, and a workload that was refused a reading is not remembered.
func TestPodCausesOfRenamedWorkloads(t *testing.T) {
	owner := types.NamespacedName{Namespace: "a", Name: "web"}
	for name, end := range map[string]func(p *PodCauses, before, next Key){
		"the owner names another one": func(p *PodCauses, _, next Key) { p.RetainWorkloads("ud", owner, sets.New(next.Workload)) },
		"the owner is created again":  func(p *PodCauses, _, _ Key) { p.ForgetOwner("ud", owner) },
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPodCauses(clocktesting.NewFakePassiveClock(time.Unix(1<<30, 0)))
			other := Key{Manager: "ud", Owner: types.NamespacedName{Namespace: "b", Name: "web"}, Workload: "web"}
			if !p.beginReading(other) {
				t.Fatal("the other owner's pods are not read")
			}
			readings, before := 0, Key{}
			for i := range 1000 {
				key := Key{Manager: "ud", Owner: owner, Workload: fmt.Sprint("web-", i)}
				end(p, before, key)
				read := p.beginReading(key)
				if read {
					readings++
					p.noteCauses(key, []corev1.Pod{{}})
				}
				if again := p.recallCauses(key); len(again.pods) > 0 != read || again.again <= 0 {
					t.Fatalf("recalled %+v, read: %t", again, read)
				}
				if n := len(p.owners[key.owner()]); n > 1 || !read && n > 0 {
					t.Fatalf("%d workloads are remembered after %d names", n, i+1)
				}
				before = key
			}
			if readings != podReadingsAtOnce {
				t.Errorf("%d readings at once, want %d", readings, podReadingsAtOnce)
			}
			if len(p.owners[other.owner()]) != 1 {
				t.Error("the other owner's workload is forgotten")
			}
		})
	}
}

// TestPodCausesAreRemembered has the causes of a reading stay until the next one, and go once the workload is ready.
func TestPodCausesAreRemembered(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1<<30, 0))
	p, key := NewPodCauses(clock), newPodKey("a", "web")
	if !p.beginReading(key) {
		t.Fatal("the first reading waits")
	}
	p.noteCauses(key, []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}})
	clock.SetTime(clock.Now().Add(firstPodInterval - time.Second))
	if p.beginReading(key) {
		t.Error("the pods are read before their time")
	}
	if got := p.recallCauses(key); len(got.pods) != 1 || got.again != time.Second {
		t.Errorf("recalled %+v", got)
	}
	p.noteReady(key)
	if got := p.recallCauses(key); len(got.pods) != 0 {
		t.Errorf("recalled %+v of a workload that was ready", got)
	}
}
