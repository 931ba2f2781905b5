package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var stage *Stage

func TestMain(m *testing.M) {
	os.Exit(Main(m, "kubectl", &stage, func() error { return nil }))
}

// TestKubectl applies every example twice. The second time kubectl says that nothing changes, before and after the operator
// has looked at it, and shows no difference.
func TestKubectl(t *testing.T) {
	unchanged := func(t *testing.T, path string) {
		t.Helper()
		for line := range strings.Lines(stage.Run(t, "apply", "-n", "default", "-f", path)) {
			if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
				t.Errorf("applied again: %s", line)
			}
		}
		if out, err := stage.Kubectl("diff", "-n", "default", "-f", path); err != nil || out != "" {
			t.Errorf("kubectl diff: %v\n%s", err, out)
		}
	}
	for _, path := range Examples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			stage.Run(t, "apply", "-n", "default", "-f", path)
			t.Cleanup(func() { stage.Run(t, "delete", "-n", "default", "--wait", "-f", path) })
			unchanged(t, path)
			stop := stage.Operate(t, "default")
			Eventually(t, func() error {
				out, err := stage.Kubectl("get", "-n", "default", "-f", path, "-o",
					`jsonpath={range .items[*]}{.status.observedGeneration} {end}{.status.observedGeneration}`)
				if err == nil && (strings.TrimSpace(out) == "" || strings.Contains(out, "-1")) {
					err = fmt.Errorf("the operator has not looked at it: %q", out)
				}
				return err
			})
			stop()
			unchanged(t, path)
		})
	}
}
