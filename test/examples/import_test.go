package examples

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/test/harness"
)

// TestImportedExamplesMeanTheSame imports the Deployments of each application: of the originals where they are at hand, and of what the Apps in
// the folder examples/ mean. Each imported App creates the same objects where there are none.
func TestImportedExamplesMeanTheSame(t *testing.T) {
	for _, name := range applications(t) {
		for _, file := range []string{
			filepath.Join("testdata", name+".golden.yaml"), filepath.Join(harness.Root(), "..", "shared", "examples", name, "original.yaml"),
		} {
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				t.Logf("%s is not there", file)
				continue
			}
			around := namespaceOf(read(t, file))
			for i := range around.Deployments {
				from := around.SourceOf(&around.Deployments[i])
				made, err := view.ImportOf(from)
				if err != nil {
					t.Errorf("%s: %v", file, err)
					continue
				}
				verified, err := view.VerifyImport(made, from)
				if err != nil || len(verified.Differences) > 0 {
					t.Errorf("%s: %v: %+v", file, err, verified)
				}
			}
		}
	}
}

// namespaceOf returns the objects of an application as the objects of a namespace.
func namespaceOf(a application) *view.Namespace {
	n := &view.Namespace{}
	for _, d := range a.deployments {
		n.Deployments = append(n.Deployments, *d)
	}
	for _, s := range a.services {
		n.Services = append(n.Services, *s)
	}
	for _, obj := range a.others {
		if scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler); ok {
			n.Autoscalers = append(n.Autoscalers, *scaler)
		}
	}
	return n
}
