package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestWithClaimTemplates checks that the template of a StatefulSet that was made without guards stays as it is, and that no
// other difference is hidden.
func TestWithClaimTemplates(t *testing.T) {
	former := map[string]string{appv1.AnnotationRetainedFor: "CloudManager.cm"}
	for name, c := range map[string]struct {
		live   map[string]string
		keeps  bool
		volume string
	}{
		"a former one":     {former, true, DataVolume},
		"today's":          {mergedMaps(former, pruneGuards), true, DataVolume},
		"another's":        {map[string]string{appv1.AnnotationRetainedFor: "CloudManager.other"}, false, DataVolume},
		"none":             {nil, false, DataVolume},
		"another volume's": {former, false, "other"},
	} {
		w := &Workload{RetainedFor: "CloudManager.cm"}
		w.Claims = []corev1.PersistentVolumeClaim{{ObjectMeta: w.claimMeta(DataVolume)}}
		want := w.Claims[0].Annotations
		if c.keeps {
			want = c.live
		}
		w = w.WithClaimTemplates([]corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: c.volume, Annotations: c.live}}})
		if diff := cmp.Diff(want, w.Claims[0].Annotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !Guarded(Claim(w, "datadir-db-0")) {
			t.Errorf("%s: the claim itself has no guards", name)
		}
	}
}
