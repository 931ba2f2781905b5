package integration

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// newAdopterOfAccount returns an App that asks to take over the ServiceAccount of its name.
func newAdopterOfAccount(ns string) *appv1.App {
	app := newApp(ns, "web")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	app.Spec.ServiceAccount = &appv1.ServiceAccountSpec{}
	return app
}

// TestForeignAccount has an App adopt a ServiceAccount of its name. An account that pods of others run as stays as it is, and the App waits.
func TestForeignAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// account is that of a pod with the labels.
		account string
		labels  map[string]string
		adopted bool
	}{
		"of no pods":        {"other", map[string]string{"app": "other"}, true},
		"of pods of others": {"web", map[string]string{"app": "other"}, false},
		"of its own pods":   {"web", map[string]string{"run": "web"}, true},
		"of similar pods":   {"web", map[string]string{"run": "website"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pod", Labels: c.labels}}
			pod.Spec.ServiceAccountName = c.account
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "httpd"}}
			plane.Create(t, account, newHandMade(ns, "web"), pod)
			was, app := readWhole(t, account), newAdopterOfAccount(ns)
			plane.Create(t, app)
			if c.adopted {
				plane.Stands(t, app, "Applied=True/Applied")
				if plane.Read(t, account); !metav1.IsControlledBy(account, app) {
					t.Errorf("the account is not adopted: %v", account.OwnerReferences)
				}
				return
			}
			plane.Stands(t, app, "Applied=False/ResourceExists")
			harness.Says(t, app, "Applied", "pods that do not belong to this resource run as it")
			checkUntouched(t, account, was)
		})
	}
}

// TestAccountNextToLongObjects has an App adopt a ServiceAccount in a namespace whose CronJobs are long. They are read up to a limit, beyond which the
// account stays as it is, and the message says why.
func TestAccountNextToLongObjects(t *testing.T) {
	t.Parallel()
	const length = 1 << 20
	for name, c := range map[string]struct {
		crons   int
		adopted bool
	}{"within the limit": {10, true}, "beyond the limit": {17, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
			plane.Create(t, account, newHandMade(ns, "web"))
			for i := range c.crons {
				cron := &batchv1.CronJob{ObjectMeta: fixture.Meta(ns, fmt.Sprintf("long-%d", i)), Spec: batchv1.CronJobSpec{Schedule: fixture.Schedule}}
				pod := &cron.Spec.JobTemplate.Spec.Template.Spec
				pod.RestartPolicy = corev1.RestartPolicyNever
				pod.Containers = []corev1.Container{{Name: "main", Image: "httpd", Args: []string{strings.Repeat("x", length)}}}
				plane.Create(t, cron)
			}
			was, app := readWhole(t, account), newAdopterOfAccount(ns)
			plane.Create(t, app)
			if c.adopted {
				plane.Stands(t, app, "Applied=True/Applied")
				return
			}
			plane.Stands(t, app, "Applied=False/ResourceExists")
			harness.Says(t, app, "Applied", "too long to be read for this question", "spec.serviceAccountName in place of spec.serviceAccount")
			checkUntouched(t, account, was)
		})
	}
}
