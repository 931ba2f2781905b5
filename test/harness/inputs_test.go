package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestInputsOfCachedResults runs what suites do in a process of its own, and looks up the inputs in the log from which Go knows whether a cached result
// is still true: the code of a program that a test builds, and what a control plane is started from, which TestMain does before Go takes notes.
func TestInputsOfCachedResults(t *testing.T) {
	const work = "TEST_HARNESS_WORK"
	root, err := filepath.Abs(Root())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		run  func(t *testing.T)
		want []string
	}{
		"a program": {
			func(t *testing.T) {
				if err := BuildProgram(filepath.Join(t.TempDir(), "program"), "", "./hack/longforms"); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"open " + root + "/hack/longforms/main.go", "open " + root + "/go.mod"},
		},
		"a control plane": {
			func(t *testing.T) { (&Plane{Client: fake.NewFakeClient()}).Namespace(t) },
			[]string{"open " + root + "/config/rbac/role.yaml", "open " + root + "/cmd/kubectl-happ/main.go",
				"open " + root + "/main.go", "getenv TEST_INPUTS", "getenv KUBEBUILDER_ASSETS", "getenv CLUSTER_BINARY"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(work) != "" {
				c.run(t)
				return
			}
			log := filepath.Join(t.TempDir(), "inputs")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.testlogfile="+log)
			cmd.Env = append(os.Environ(), work+"=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			inputs, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(inputs), "\nopen "+root+"\n") {
				t.Error("each change in the folder of the repository, such as a commit, repeats the test")
			}
			for _, want := range c.want {
				if !strings.Contains(string(inputs), "\n"+want+"\n") {
					t.Errorf("the inputs have no %q:\n%s", want, inputs)
				}
			}
		})
	}
}
