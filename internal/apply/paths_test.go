package apply

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// recordedDeployment is a wanted Deployment with records, labels and annotations of its own.
func recordedDeployment() *appsv1.Deployment {
	d := fieldtest.Deployment()
	d.Labels = map[string]string{"app": "web", "team": "red"}
	d.Annotations = map[string]string{
		"example.com/of": "both", appv1.AnnotationLastAppliedSpec: "{}", appv1.AnnotationLastAppliedInputs: `{"rendering":2}`,
	}
	pod := &d.Spec.Template
	pod.Annotations = map[string]string{"example.com/of": "pods"}
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Scheme: corev1.URISchemeHTTP}},
	}
	return d
}

// edits are changes by others of a Deployment of ours, with the fields that the event of their repair has to name.
var edits = map[string]struct {
	edit func(*appsv1.Deployment)
	want []string
}{
	"annotation removed": {func(d *appsv1.Deployment) { delete(d.Annotations, "example.com/of") }, []string{"metadata.annotations[example.com/of]"}},
	"hash removed": {
		func(d *appsv1.Deployment) { delete(d.Annotations, appv1.AnnotationLastAppliedHash) },
		[]string{"its record annotation " + appv1.AnnotationLastAppliedHash},
	},
	"hash changed": {
		func(d *appsv1.Deployment) { d.Annotations[appv1.AnnotationLastAppliedHash] = "0" },
		[]string{"its record annotation " + appv1.AnnotationLastAppliedHash},
	},
	"record of the spec changed": {
		func(d *appsv1.Deployment) { d.Annotations[appv1.AnnotationLastAppliedSpec] = "{1}" },
		[]string{"its record annotation " + appv1.AnnotationLastAppliedSpec},
	},
	"record of the inputs removed": {
		func(d *appsv1.Deployment) { delete(d.Annotations, appv1.AnnotationLastAppliedInputs) },
		[]string{"its record annotation " + appv1.AnnotationLastAppliedInputs},
	},
	"all annotations removed": {
		func(d *appsv1.Deployment) { d.Annotations = nil }, []string{"metadata.annotations[example.com/of]", "its record annotations"},
	},
	"label removed":      {func(d *appsv1.Deployment) { delete(d.Labels, "team") }, []string{"metadata.labels[team]"}},
	"all labels removed": {func(d *appsv1.Deployment) { d.Labels = nil }, []string{"metadata.labels[app]", "metadata.labels[team]"}},
	"owner removed":      {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, []string{"metadata.ownerReferences"}},
	"owner is no controller": {
		func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }, []string{"metadata.ownerReferences"},
	},
	"finalizer and image": { // A finalizer of others stays, and is no repair.
		func(d *appsv1.Deployment) {
			d.Finalizers = []string{"example.com/theirs"}
			d.Spec.Template.Spec.Containers[0].Image = "theirs"
		}, []string{"image"},
	},
	"annotation of the pods": {
		func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil }, []string{"template.metadata.annotations[example.com/of]"},
	},
	"field of the spec": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "theirs" }, []string{"image"}},
	"field of the pods": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector = nil }, []string{"nodeSelector"}},
	"item of a list changed": {
		func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Value = "theirs" }, []string{"env[A]"},
	},
	"item of a list removed": {
		func(d *appsv1.Deployment) {
			c := &d.Spec.Template.Spec.Containers[0]
			c.Env = slices.Clone(c.Env[1:])
		}, []string{"env[A]"},
	},
	"order of a list": {
		func(d *appsv1.Deployment) { slices.Reverse(d.Spec.Template.Spec.Containers[0].Env) }, []string{"the order of env"},
	},
	"list that is one value": {
		func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Command = []string{"theirs"} }, []string{"command"},
	},
	"other member of a one-of": {
		func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}
		}, []string{"readinessProbe.httpGet", "readinessProbe.tcpSocket"},
	},
	"container renamed": {
		func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "theirs" }, []string{"containers[theirs]", "containers[web]"},
	},
}

// TestRepairNamesFields edits a Deployment in every way that is repaired. The event of the repair names what was repaired,
// however little it was, and has no value of it.
func TestRepairNamesFields(t *testing.T) {
	for name, c := range edits {
		t.Run(name, func(t *testing.T) {
			live := recordedDeployment()
			live.UID = "live-uid"
			live.Annotations[appv1.AnnotationLastAppliedHash] = hashOf(t, recordedDeployment())
			c.edit(live)
			owned := settledFields
			if live.Annotations[appv1.AnnotationLastAppliedHash] != hashOf(t, recordedDeployment()) {
				owned = editedFields
			}
			live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("me", apply, "", owned)}
			req := request(live)
			req.Objects[0].Desired = recordedDeployment()
			changes, err := localChanges(t, planner(t), req)
			if err != nil || len(changes) != 1 {
				t.Fatalf("%+v, %v", changes, err)
			}
			if got := changes[0]; got.Action != Repaired || !slices.Equal(got.Fields, c.want) {
				t.Errorf("%s %q, want %s %q", got.Action, got.Fields, Repaired, c.want)
			}
			if _, line := changes.Summary(); strings.Contains(strings.ReplaceAll(line, "[theirs]", ""), "theirs") {
				t.Errorf("it has a value: %s", line)
			}
		})
	}
}

// TestOwnershipAloneIsNamed clears who owns the fields of a Deployment, as a backup tool does: that it is written for.
func TestOwnershipAloneIsNamed(t *testing.T) {
	live := recordedDeployment()
	live.UID, live.Spec.Replicas = "live-uid", ptr.To[int32](2)
	live.Annotations[appv1.AnnotationLastAppliedHash] = hashOf(t, recordedDeployment())
	req := request(live)
	req.Objects[0].Desired = recordedDeployment()
	changes, err := localChanges(t, planner(t), req)
	if err != nil || len(changes) != 1 || !slices.Equal(changes[0].Fields, []string{describe.OwnershipFields}) {
		t.Errorf("%+v, %v", changes, err)
	}
}
