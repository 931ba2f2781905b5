package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// explainedScores are what kube-score calls critical in the objects of the full sample, and why it is as it is.
var explainedScores = map[string]string{
	"Deployment container-image-pull-policy": "the default is IfNotPresent (docs/app.md); the sample's tag does not move",
	"Deployment container-ephemeral-storage-request-and-limit": "sizes are cpu and memory (docs/app.md); resources states storage " +
		"where an application writes to its disk",
	"Deployment container-security-context-readonlyrootfilesystem": "the image of the sample writes to its file system, and " +
		"restricted, as the Pod Security Standard, does not demand it (docs/app.md)",
	"Deployment container-security-context-user-group-id": "the image of the sample runs as root; securityProfile is the field for " +
		"one that does not (docs/app.md)",
}

// scored is an object in the output of kube-score.
type scored struct {
	TypeMeta struct {
		Kind string `json:"kind"`
	} `json:"type_meta"`
	Checks []struct {
		Check struct {
			ID string `json:"id"`
		} `json:"check"`
		Grade    int  `json:"grade"`
		Skipped  bool `json:"skipped"`
		Comments []struct {
			Summary string `json:"summary"`
		} `json:"comments"`
	} `json:"checks"`
}

// critical is the lowest grade of kube-score.
const critical = 1

// TestScore lets kube-score judge the objects of the full sample. Nothing is critical but what is explained here.
func TestScore(t *testing.T) {
	program := os.Getenv("KUBE_SCORE")
	if program == "" {
		t.Skip("KUBE_SCORE does not name kube-score; make test-score sets it")
	}
	data, err := os.ReadFile(filepath.Join("..", "config", "samples", "app_v1_app_full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var app appv1.App
	if err := yaml.UnmarshalStrict(data, &app); err != nil {
		t.Fatal(err)
	}
	// As the operator builds it once the Deployment is there.
	inputs := BuildInputs{Rendering: RenderingLatest, Size: BuiltInSizes().Resolve(app.Spec.Size)}
	w, errs := App(&app, BuildOptions{Inputs: inputs, LiveReplicas: ptr.To[int32](2)})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	var manifests bytes.Buffer
	objects := w.Objects()
	for _, obj := range objects {
		text, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		manifests.WriteString("---\n")
		manifests.Write(text)
	}
	cmd := exec.CommandContext(t.Context(), program, "score", "--output-format=json", "--kubernetes-version=v1.30", "-")
	cmd.Stdin, cmd.Stderr = &manifests, os.Stderr
	out, err := cmd.Output() // With critical findings it ends with an error.
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	var cards []scored
	if err := json.Unmarshal(out, &cards); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(cards) != len(objects)-1 { // It does not look at ServiceAccounts.
		t.Errorf("kube-score judged %d of %d objects", len(cards), len(objects))
	}
	found := map[string]string{}
	for _, card := range cards {
		for _, check := range card.Checks {
			if check.Grade != critical || check.Skipped {
				continue
			}
			at := card.TypeMeta.Kind + " " + check.Check.ID
			found[at] = explainedScores[at]
			for _, c := range check.Comments {
				t.Logf("%s: %s", at, c.Summary)
			}
		}
	}
	if diff := cmp.Diff(explainedScores, found); diff != "" {
		t.Errorf("what is critical (-explained +found):\n%s", diff)
	}
}
