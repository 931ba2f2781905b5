package workload

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestScorecard runs the scorecard's stage of our own over the bundle, as its pod does: it passes where the operator
// runs, fails where nothing is done for the App, and leaves none behind.
func TestScorecard(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "scorecard")
	if err := errors.Join(harness.ReadInputs("bundle"), harness.BuildProgram(program, "", "./test/scorecard")); err != nil {
		t.Fatal(err)
	}
	ns := plane.Namespace(t)
	result := func(bundle string) v1alpha3.TestResult {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, filepath.Join(harness.Root(), bundle))
		cmd.Env = append(os.Environ(), "KUBECONFIG="+harness.WriteKubeconfig(t, plane.Config), "SCORECARD_NAMESPACE="+ns)
		out, err := cmd.CombinedOutput() // The scorecard sees both as one.
		var status v1alpha3.TestStatus
		if err != nil || json.Unmarshal(out, &status) != nil || len(status.Results) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		return status.Results[0]
	}

	if r := result("config"); r.State != v1alpha3.FailState || len(r.Errors) != 1 {
		t.Errorf("without a bundle: %+v", r)
	}
	plane.Start(t, ns)
	if r := result("bundle"); r.State != v1alpha3.PassState {
		t.Errorf("with the operator: %+v", r)
	}
	// One that cannot become Ready.
	newQuota(t, ns, corev1.ResourcePods, "0")
	said := interrupted(t, program, ns)
	if !strings.Contains(said, `"state":"fail"`) || !strings.Contains(said, appv1.ReasonQuotaExceeded) {
		t.Errorf("with a quota: %s", said)
	}
	var left appv1.AppList
	if err := plane.Client.List(t.Context(), &left, client.InNamespace(ns)); err != nil || len(left.Items) > 0 {
		t.Errorf("it leaves %d Apps (%v)", len(left.Items), err)
	}
}

// interrupted is what the program says if it is stopped once the App says why it is not Ready.
func interrupted(t *testing.T, program, ns string) string {
	t.Helper()
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), program, filepath.Join(harness.Root(), "bundle"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+harness.WriteKubeconfig(t, plane.Config), "SCORECARD_NAMESPACE="+ns)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var apps appv1.AppList
	harness.Eventually(t, func() error {
		if err := plane.Client.List(t.Context(), &apps, client.InNamespace(ns)); err != nil {
			return err
		}
		for i := range apps.Items {
			is := meta.FindStatusCondition(apps.Items[i].Status.Conditions, appv1.ConditionReady)
			if is != nil && is.Reason == appv1.ReasonQuotaExceeded {
				return cmd.Process.Signal(os.Interrupt)
			}
		}
		return os.ErrNotExist
	})
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return out.String()
}
