package resource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// tierOf returns how to build a case of one tier of a CloudManager.
func tierOf(tier Tier) func(testing.TB, string) (goldenCase, builder) {
	return func(t testing.TB, path string) (goldenCase, builder) {
		var cm appv1.CloudManager
		c := readCase(t, path, &cm)
		cm.DefaultNames()
		return c, func(seen BuildOptions) (*Workload, field.ErrorList) { return CloudManagerTier(&cm, tier, seen) }
	}
}

// TestComponentSpecChanged checks what of a database's spec restarts its pods with today's inputs: not what its volumes
// are like, nor the number of pods.
func TestComponentSpecChanged(t *testing.T) {
	cm := &appv1.CloudManager{}
	db := &cm.Spec.DB.StatefulSet
	db.Component = appv1.Component{Name: "db", WorkloadSpec: appv1.WorkloadSpec{Image: "a"}}
	db.Storage.Size = apiresource.MustParse("1Gi")
	w := built(t)(CloudManagerDatabase(cm, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}}))
	record := w.Record[appv1.AnnotationLastAppliedSpec]
	for name, c := range map[string]struct {
		change func()
		want   bool
	}{
		"nothing": {func() {}, false},
		"size":    {func() { db.Storage.Size = apiresource.MustParse("2Gi") }, false},
		"retain":  {func() { db.Storage.Retain = ptr.To(false) }, false},
		"pods":    {func() { db.Replicas = ptr.To[int32](3) }, false},
		"image":   {func() { db.Image = "b" }, true},
	} {
		before := db.DeepCopy()
		c.change()
		got, err := TierSpec(cm, TierDatabase).Changed(record, ScopePods)
		if err != nil || got != c.want {
			t.Errorf("%s: changed %t, %v; want %t", name, got, err, c.want)
		}
		*db = *before
	}
}

// TestPasswordStaysInSecret checks that no object but the Secret has the password.
func TestPasswordStaysInSecret(t *testing.T) {
	const password = "hunter2hunter2"
	cm := &appv1.CloudManager{}
	cm.Name = "cm"
	cm.Spec.DB.RootPass = password
	cm.DefaultNames()
	for _, tier := range []Tier{TierDatabase, TierIdentity, TierFront} {
		w := built(t)(CloudManagerTier(cm, tier, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}}))
		everything := []any{w}
		for _, object := range w.Objects() {
			everything = append(everything, object)
		}
		for _, object := range everything {
			if text := string(canonicalJSON(object)); strings.Contains(text, password) {
				t.Errorf("%s: %T has the password", w.Name, object)
			}
		}
	}
}

// TestClaimOrdinal reads claims' names as the StatefulSet controller writes them.
func TestClaimOrdinal(t *testing.T) {
	got := map[string]int32{}
	for _, name := range []string{
		"datadir-db-0", "datadir-db-12", "datadir-db-01", "datadir-db-", "datadir-db--1", "datadir-db", "datadir-db-x",
		"datadir-db-2-0", "other-db-0", "datadir-other-0", "datadir-db-+1", "datadir-db-99999999999",
	} {
		if ordinal, ok := ClaimOrdinal("db", name); ok {
			got[name] = ordinal
		}
	}
	if diff := cmp.Diff(map[string]int32{"datadir-db-0": 0, "datadir-db-12": 12}, got); diff != "" {
		t.Errorf("claims of the workload (-want +got):\n%s", diff)
	}
}

// TestUsersVariables checks that a variable of the user's takes the place of one of ours, and comes after all of them.
func TestUsersVariables(t *testing.T) {
	cm := &appv1.CloudManager{}
	cm.Name = "cm"
	cm.Spec.Front.Deployment.Envs = []corev1.EnvVar{{Name: "DB_HOST", Value: "elsewhere"}}
	cm.DefaultNames()
	w := built(t)(CloudManagerFront(cm, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}}))
	var got []string
	for _, env := range w.Template.Spec.Containers[0].Env {
		got = append(got, env.Name+"="+env.Value)
	}
	if diff := cmp.Diff([]string{"DB_PORT=3306", "DB_USERNAME=", "DB_PASSWORD=", "DB_HOST=elsewhere"}, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

// databaseChanged reports whether a database's spec differs from a record, its storage included.
func databaseChanged(db *appv1.Database, record string) (bool, error) {
	cm := &appv1.CloudManager{}
	cm.Spec.DB.StatefulSet = *db
	spec := TierSpec(cm, TierDatabase)
	if changed, err := spec.Changed(record, ScopePods); changed || err != nil {
		return changed, err
	}
	return spec.Changed(record, ScopeVolumes)
}

// TestDatabaseSpecChanged compares a database's spec with a record: unlike for the pods, the storage counts.
func TestDatabaseSpecChanged(t *testing.T) {
	was := appv1.Database{Component: appv1.Component{Name: "db", WorkloadSpec: appv1.WorkloadSpec{Image: "mariadb:10.3"}}}
	was.Storage.Size = apiresource.MustParse("1024Mi")
	record := string(canonicalJSON(was))
	for name, c := range map[string]struct {
		change func(*appv1.Database)
		want   bool
	}{
		"nothing":         {func(*appv1.Database) {}, false},
		"the same size":   {func(db *appv1.Database) { db.Storage.Size = apiresource.MustParse("1Gi") }, false},
		"another size":    {func(db *appv1.Database) { db.Storage.Size = apiresource.MustParse("2Gi") }, true},
		"another class":   {func(db *appv1.Database) { db.Storage.Class = new(string) }, true},
		"another image":   {func(db *appv1.Database) { db.Image = "mariadb:11" }, true},
		"number of pods":  {func(db *appv1.Database) { db.Replicas = new(int32) }, false},
		"another mode":    {func(db *appv1.Database) { db.Storage.AccessModes = corev1.ReadWriteMany }, true},
		"another mounted": {func(db *appv1.Database) { db.Storage.MountPath = "/data" }, true},
	} {
		now := was.DeepCopy()
		c.change(now)
		if got, err := databaseChanged(now, record); err != nil || got != c.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	if _, err := databaseChanged(&was, "{}"); err == nil {
		t.Error("a record of nothing is taken for one of a spec")
	}
}
