package controllers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/play"
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
	if fourth := judge(); fourth == third || !fourth.paused {
		t.Errorf("with another spec: %+v", fourth)
	}
	f.remove(app)
	if judge() != nil || len(f.leader.judged.bySurvey) > 0 {
		t.Error("a resource that is gone is remembered")
	}
}

// TestJudgementsFollowTheOwnerOfARecord clears the managed fields of a Deployment, as a restore from a backup does, and has the operator write the same records again: a
// judgement depends on both.
func TestJudgementsFollowTheOwnerOfARecord(t *testing.T) {
	f := newFleet(t, 1, plainApp, inWaves("1", "1", "0s"))
	exempt := func() bool {
		t.Helper()
		f.look()
		return f.leader.judged.ofLatest("platform")[types.UID("uid-of-app-web-0")].exempt
	}
	if exempt() {
		t.Fatal("at first, no wave can take it")
	}
	d := f.deploymentOf("web-0")
	records := d.Annotations
	d.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	f.update(d)
	if !exempt() {
		t.Error("a wave can take an App whose record is not the operator's")
	}
	f.app("web-0")
	if exempt() {
		t.Error("no wave can take it once the record is the operator's again")
	}
	if got := f.deploymentOf("web-0").Annotations; got[appv1.AnnotationLastAppliedInputs] != records[appv1.AnnotationLastAppliedInputs] {
		t.Errorf("the record has changed to %q", got)
	}
}

// TestAFailedResourceIsNamedOnce has a resource that cannot take the defaults stop the rollout as well.
func TestAFailedResourceIsNamedOnce(t *testing.T) {
	id := func(name string) waves.ID {
		return waves.ID{Kind: "App", NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	both, invalid, stalled := id("both"), id("invalid"), id("stalled")
	status := appv1.AppDefaultsStatus{Failed: []appv1.FailedDefaults{newFailed(&both, "invalid"), newFailed(&invalid, "invalid")}}
	found := &survey{messages: map[waves.ID]string{both: "rolled back"}}
	setWaves(&status, found, &rolloutResult{Decision: waves.Decision{Stalled: []waves.ID{stalled, both}}}, newSetCondition(&status.Conditions, 1))
	want := []appv1.FailedDefaults{newFailed(&both, "rolled back"), newFailed(&stalled, ""), newFailed(&invalid, "invalid")}
	if !slices.Equal(status.Failed, want) {
		t.Errorf("the status names %+v", status.Failed)
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

// TestWavesWaitForJudgementsOnlySoLong has a survey that is never complete, as a user changes large resources all the time: the wave waits for a
// while, names the namespace, and then begins without them.
func TestWavesWaitForJudgementsOnlySoLong(t *testing.T) {
	f := newFleet(t, maxNamespaceReads+3, plainApp, inWaves("1", "1", "0s"))
	f.begin()
	partial := &partialLists{Client: f.leader.Client}
	f.leader.Client = partial
	change := func() { // No judgement is known any more.
		f.leader.judged.keepLatest("platform", map[types.UID]*judgement{"other": {}})
	}
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	for second := range int(maxIncomplete / time.Second) {
		change()
		f.look()
		is := meta.FindStatusCondition(f.defaults().Conditions, appv1.ConditionRolledOut)
		if len(f.leader.grants.All()) > 0 || is == nil || !strings.Contains(is.Message, "resources of namespace "+namespace) {
			t.Fatalf("after %d s, %d are granted: %+v", second, len(f.leader.grants.All()), is)
		}
		f.pass(time.Second)
	}
	change()
	if f.look(); len(f.leader.grants.All()) != 1 {
		t.Errorf("%d are granted after a minute: %s", len(f.leader.grants.All()), f.rolledOut())
	}
}

// TestIncompleteSurveys checks when the time begins for which incomplete surveys hold up a wave.
func TestIncompleteSurveys(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*judgements)
		waits bool
	}{
		"one survey after the other":       {func(*judgements) {}, false},
		"a complete one in between":        {func(j *judgements) { j.awaitsJudgement("a", true, 1, time.Time{}) }, true},
		"the AppDefaults were deleted":     {func(j *judgements) { j.keepLatest("a", nil) }, true},
		"a complete one of other defaults": {func(j *judgements) { j.awaitsJudgement("b", true, 1, time.Time{}) }, false},
		"the AppDefaults have changed":     {func(j *judgements) { j.awaitsJudgement("a", false, 2, time.Unix(1e9+59, 0)) }, true},
		"only a few surveys": {func(j *judgements) {
			j.incomplete["a"] = incompleteSurveys{since: time.Unix(1e9, 0), count: maxIncompleteSurveys - 1, generation: 1}
		}, true},
	} {
		var j judgements
		for second := range int64(60) {
			if !j.awaitsJudgement("a", false, 1, time.Unix(1e9+second, 0)) {
				t.Errorf("%s: nothing waits after %d s", name, second)
			}
		}
		c.do(&j)
		if got := j.awaitsJudgement("a", false, 1, time.Unix(1e9+60, 0)); got != c.waits {
			t.Errorf("%s: waits %t", name, got)
		}
	}
}

// TestWaveNumbersGoOn rolls texts out one after the other, also a former one, after invalid AppDefaults, and after a time without waves: no wave has the
// number of an earlier one, so that no record of an earlier wave counts as one of the latest.
func TestWaveNumbersGoOn(t *testing.T) {
	f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
	wave := int32(0)
	for _, text := range []string{
		inWaves("2", "1", "0s"), inWaves("3", "1", "0s"), inWaves("2", "1", "0s"), `{"defaults":{"podAnnotations":{"-":"x"}}}`, inWaves("4", "1", "0s"),
		`{"defaults":{"podAnnotations":{"a":"5"}}}`, inWaves("6", "1", "0s"),
	} {
		f.setDefaults("platform", text)
		f.waveWith(4)
		if strings.Contains(text, "Waves") {
			wave += 2
		}
		if got := f.defaults().Wave; got != wave {
			t.Errorf("after %s, the latest wave is %d, want %d: %s", text, got, wave, f.rolledOut())
		}
		for _, name := range f.names {
			record, err := resource.DecodeInputs(f.deploymentOf(name).Annotations[appv1.AnnotationLastAppliedInputs])
			if err != nil || record.Wave.Number > wave || strings.Contains(text, "Waves") && record.Wave.Number <= wave-2 {
				t.Errorf("after %s, %s has the record %+v, %v", text, name, record.Wave, err)
			}
		}
	}
}

// TestForgedWave writes the number of a later wave into the record of a Deployment, as each user who can change the Deployment can: the next wave waits for the
// pods of the latest one nevertheless.
func TestForgedWave(t *testing.T) {
	for _, forged := range []int32{2, 7, maxUnknownWave, math.MaxInt32} {
		t.Run(fmt.Sprint(forged), func(t *testing.T) { forgeWave(t, forged) })
	}
}

func forgeWave(t *testing.T, forged int32) {
	t.Helper()
	f := newFleet(t, 6, plainApp, inWaves("1", "1", "10m"))
	f.setDefaults("platform", inWaves("2", "1", "10m"))
	f.waveWith(1)
	d := f.deploymentOf(f.with("2")[0])
	record, err := resource.DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil || record.Wave.Number != 1 {
		t.Fatalf("the record is %+v, %v", record, err)
	}
	taken := f.with("2")
	other := f.deploymentOf(f.names[slices.IndexFunc(f.names, func(name string) bool { return !slices.Contains(taken, name) })])
	record.Wave = resource.Wave{Number: forged, At: metav1.NewTime(f.clock.Now().Add(-time.Hour))}
	other.Annotations[appv1.AnnotationLastAppliedInputs] = record.Encode()
	f.update(other)
	f.look()
	if got := f.defaults(); got.Wave != 1 || len(f.leader.grants.All()) > 0 {
		t.Errorf("with wave %d, wave %d is under way, %d are granted: %s", forged, got.Wave, len(f.leader.grants.All()), f.rolledOut())
	}
}

// TestAnEditedRecordLosesNoWave has another client edit the recorded spec on the Deployment of an App with a grant, and a survey see that or not: the operator
// writes its record again, and the App takes the defaults.
func TestAnEditedRecordLosesNoWave(t *testing.T) {
	for _, seen := range []bool{false, true} {
		t.Run(fmt.Sprintf("seen %t", seen), func(t *testing.T) {
			f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
			f.setDefaults("platform", inWaves("2", "1", "0s"))
			f.look()
			for id := range f.leader.grants.All() {
				d := f.deploymentOf(id.Name)
				d.Annotations[appv1.AnnotationLastAppliedSpec] += " "
				f.update(d)
				if seen {
					f.look()
				}
				f.app(id.Name)
			}
			f.waveWith(6)
			if got := f.with("2"); len(got) != 2 || f.rolledOut() != "True/RolledOut" {
				t.Errorf("%v have the defaults: %s", got, f.rolledOut())
			}
			if wave := f.defaults().Wave; wave > 3 {
				t.Errorf("that took %d waves", wave)
			}
		})
	}
}

// TestAForeignRecordBeginsNoWave has another client write the record of a Deployment again and again: while it is not the operator's, no wave begins with its App, and the
// others take the defaults.
func TestAForeignRecordBeginsNoWave(t *testing.T) {
	f := newFleet(t, 2, plainApp, inWaves("1", "1", "0s"))
	foreign, other := f.names[0], f.names[1]
	f.setDefaults("platform", inWaves("2", "1", "0s"))
	for round := range 10 {
		d := f.deploymentOf(foreign)
		d.Annotations[appv1.AnnotationLastAppliedSpec] = plainApp + strings.Repeat(" ", round+1)
		f.update(d)
		f.look()
		f.app(foreign)
		f.app(other)
		f.setPods(other, play.SetAvailable)
		f.app(other)
		f.pass(time.Minute)
	}
	if got := f.defaults(); got.Wave > 1 || len(f.leader.grants.All()) > 0 || !slices.Equal(f.with("2"), []string{other}) {
		t.Errorf("wave %d, %d are granted, %v have the defaults: %s", got.Wave, len(f.leader.grants.All()), f.with("2"), f.rolledOut())
	}
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
