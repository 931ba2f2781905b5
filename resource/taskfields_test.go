package resource

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// taskFields has a value of each field of the pod, for a Task whose App states another value or none.
var taskFields = map[string]string{
	"command": `[other]`, "args": `[--other]`, "envs": `[{name: OTHER, value: a}]`, "envFrom": `[{configMapRef: {name: other}}]`,
	"resources": `{requests: {cpu: 77m}}`, "size": `other`, "containerName": `other`, "securityContext": `{runAsUser: 77}`, "securityProfile": `restricted`,
	"volumeMounts": `[{name: data, mountPath: /other}]`, "volumes": `[{name: other, emptyDir: {}}]`, "initContainers": `[{name: other, image: other}]`,
	"serviceAccountName": `other`, "automountServiceAccountToken": `true`, "imagePullSecrets": `[{name: other}]`, "podSecurityContext": `{runAsUser: 77}`,
	"nodeSelector": `{other: a}`, "tolerations": `[{key: other, operator: Exists}]`, "affinity": `{nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchExpressions: [{key: other, operator: Exists}]}}]}}`,
	"terminationGracePeriodSeconds": `77`, "priorityClassName": `other`, "runtimeClassName": `other`, "dnsPolicy": `Default`,
	"dnsConfig": `{searches: [other.example]}`, "hostAliases": `[{ip: 10.0.0.7, hostnames: [other]}]`, "podLabels": `{other: a}`, "podAnnotations": `{other: a}`,
	"podTemplatePatch": `{spec: {hostname: other}}`, "image": `other`, "imagePullPolicy": `Never`,
}

// notOfTasks are the fields of the pod that a Task has not: its other containers would never end.
var notOfTasks = map[string]bool{"containers": true}

// TestTaskStatesEachField has a Task with an App state each field of the pod: it reaches the pods of the runs, whatever the App states.
func TestTaskStatesEachField(t *testing.T) {
	names := []string{"image", "imagePullPolicy"}
	for i, fields := 0, reflect.TypeFor[appv1.PodFields](); i < fields.NumField(); i++ {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	build := func(field string) *ScheduledJob {
		task := &appv1.Task{}
		task.Name = "report"
		if err := yaml.UnmarshalStrict([]byte(field), &task.Spec); err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		task.Spec.App, task.Spec.Schedule = "cart", "@daily"
		size := ResolvedSize{}
		if task.Spec.Size != "" {
			size = ResolvedSize{Name: "other", Amounts: BuiltInSizes()[appv1.SizeLarge]}
		}
		made, errs := Task(task, readBase(t, "app"), size)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", field, errs)
		}
		return made
	}
	plain := build("{}").CronJob.Spec
	for _, name := range names {
		value, known := taskFields[name]
		switch {
		case notOfTasks[name]:
		case !known:
			t.Errorf("%s is a field of the pod, and has no row here: state it in inheritPod, and add a value", name)
		case equality.Semantic.DeepEqual(plain, build("{"+name+": "+value+"}").CronJob.Spec):
			t.Errorf("%s: %s of a Task does not reach the pods of a Task with an App", name, value)
		}
	}
}
