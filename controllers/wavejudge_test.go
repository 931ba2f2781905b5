package controllers

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/stored"
)

// TestJudgementsFollowTheirSources checks that a judgement is remembered for a generation, a record and the texts, and that each of these ends it.
func TestJudgementsFollowTheirSources(t *testing.T) {
	f := newFleet(t, 1, plainApp, inWaves("1", "1", "0s"))
	judge := func() *judgement {
		t.Helper()
		f.look()
		return f.leader.judged.ofLatest("platform")[types.UID("uid-of-app-web-0")]
	}
	first := judge()
	if first == nil || !first.current || judge() != first {
		t.Fatalf("the judgement is %+v", first)
	}
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	second := judge()
	if second == first || second.current || second.digest == first.digest {
		t.Errorf("with another text: %+v", second)
	}
	f.app("web-0")
	third := judge()
	if third == second || !third.current || third.wave.Number != 1 {
		t.Errorf("with another record: %+v", third)
	}
	app := &stored.App{}
	app.Name = "web-0"
	f.read(app)
	app.Generation++
	mustUnmarshal(t, &app.Spec, `{"image":"nginx:1","replicas":1,"paused":true}`)
	f.update(app)
	if fourth := judge(); fourth == third || !fourth.exempt {
		t.Errorf("with another spec: %+v", fourth)
	}
	f.remove(app)
	if judge() != nil || len(f.leader.judged.bySurvey) > 0 {
		t.Error("a resource that is gone is remembered")
	}
}

// partialLists is a client whose lists have a part of each App, as a cache beyond its budget.
type partialLists struct {
	client.Client
	reads int
	// fails is the number of the read that fails, 0 for none.
	fails int
}

// List implements client.Client.
func (c *partialLists) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if err := c.Client.List(ctx, into, options...); err != nil {
		return err
	}
	if apps, ok := into.(*stored.AppList); ok {
		for i := range apps.Items {
			apps.Items[i].Reduce(nil)
		}
	}
	return nil
}

// Get implements client.Client.
func (c *partialLists) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, ok := into.(*stored.App); ok {
		if c.reads++; c.reads == c.fails {
			return fmt.Errorf("%w: the API server is busy", errDead)
		}
	}
	return c.Client.Get(ctx, key, into, options...)
}

// TestJudgementsOfPartialResources surveys more Apps than a survey may read: the next survey reads the others, and at rest none is read.
func TestJudgementsOfPartialResources(t *testing.T) {
	f := newFleet(t, maxNamespaceReads+3, plainApp, inWaves("1", "1", "0s"))
	f.begin()
	partial := &partialLists{Client: f.leader.Client}
	f.leader.Client = partial
	for i, want := range []struct{ reads, current int32 }{{maxNamespaceReads, maxNamespaceReads}, {3, maxNamespaceReads + 3}, {0, maxNamespaceReads + 3}} {
		partial.reads = 0
		again := f.look()
		if got := f.defaults(); got.Current != want.current || got.Apps != maxNamespaceReads+3 || partial.reads != int(want.reads) {
			t.Errorf("survey %d: %d Apps are read, %d of %d have the defaults", i, partial.reads, got.Current, got.Apps)
		}
		if i == 0 && (again == 0 || again > countDelay) {
			t.Errorf("with Apps that are not judged, it looks again in %s", again)
		}
	}
	f.setDefaults("platform", inWaves("1.5", "8", "0s"))
	if f.look(); len(f.leader.grants.All()) > 0 {
		t.Error("a wave begins before all Apps are judged")
	}
	f.setDefaults("platform", inWaves("2", "8", "0s"))
	partial.reads, partial.fails = 0, 5
	f.look() // It fails, and keeps what it has read.
	if got := len(f.leader.grants.All()); got > 0 {
		t.Errorf("a survey that has failed has granted %d", got)
	}
	partial.fails = 0
	f.look()
	if partial.reads != len(f.names)+1 || len(f.leader.grants.All()) != 8 {
		t.Errorf("two surveys have read %d Apps, want each once, and the one that could not be read again; %d are granted", partial.reads, len(f.leader.grants.All()))
	}
	f.waveWith(9) // Three waves.
	if got := len(f.with("2")); got != len(f.names) {
		t.Errorf("%d of %d Apps have the defaults: %s", got, len(f.names), f.rolledOut())
	}
}
