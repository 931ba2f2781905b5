package view

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// readObject returns an object of a file.
func readObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// formerScaler is an autoscaler of autoscaling/v1 with annotations and, unless it is empty, a target of the CPU.
func formerScaler(t *testing.T, annotations map[string]string, percentage string) *unstructured.Unstructured {
	t.Helper()
	obj := readObject(t, "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\n"+
		"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 5"+percentage+"}\n")
	obj.SetAnnotations(annotations)
	return obj
}

// scalerBlock is the part of an App that a test of autoscalers compares.
func scalerBlock(t *testing.T, text string) *autoscalingv2.HorizontalPodAutoscalerSpec {
	t.Helper()
	block := &autoscalingv2.HorizontalPodAutoscalerSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), block); err != nil {
		t.Fatal(err)
	}
	return block
}

// TestImportFormerAutoscalers imports autoscalers of autoscaling/v1, whose annotations have the metrics and the behavior that this version has no field
// for: the App has them, as the API server would, and a comment names an annotation that cannot be decoded.
func TestImportFormerAutoscalers(t *testing.T) {
	const (
		metrics  = "autoscaling.alpha.kubernetes.io/metrics"
		behavior = "autoscaling.alpha.kubernetes.io/behavior"
		eighty   = "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]\n"
	)
	for name, c := range map[string]struct {
		annotations map[string]string
		percentage  string
		want        string
		notes       []string
	}{
		"nothing": {want: eighty},
		"the CPU": {percentage: ", targetCPUUtilizationPercentage: 60", want: strings.ReplaceAll(eighty, "80", "60")},
		"all kinds": {map[string]string{metrics: `[
			{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":70}},
			{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},
			{"type":"ContainerResource","containerResource":{"name":"cpu","container":"main","targetAverageUtilization":50}},
			{"type":"ContainerResource","containerResource":{"name":"cpu","container":"main","targetAverageValue":"200m"}},
			{"type":"Pods","pods":{"metricName":"requests","targetAverageValue":"10","selector":{"matchLabels":{"a":"b"}}}},
			{"type":"Object","object":{"target":{"kind":"Ingress","name":"web","apiVersion":"networking.k8s.io/v1"},"metricName":"hits","targetValue":"2k"}},
			{"type":"Object","object":{"target":{"kind":"Ingress","name":"web","apiVersion":"networking.k8s.io/v1"},"metricName":"hits","targetValue":"0","averageValue":"5"}},
			{"type":"External","external":{"metricName":"queue","metricSelector":{"matchLabels":{"q":"1"}},"targetValue":"30"}},
			{"type":"External","external":{"metricName":"queue","targetAverageValue":"3"}}]`},
			", targetCPUUtilizationPercentage: 60", `
metrics:
- {type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 70}}}
- {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}
- {type: ContainerResource, containerResource: {name: cpu, container: main, target: {type: Utilization, averageUtilization: 50}}}
- {type: ContainerResource, containerResource: {name: cpu, container: main, target: {type: AverageValue, averageValue: 200m}}}
- {type: Pods, pods: {metric: {name: requests, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: "10"}}}
- {type: Object, object: {describedObject: {kind: Ingress, name: web, apiVersion: networking.k8s.io/v1}, metric: {name: hits}, target: {type: Value, value: 2k}}}
- {type: Object, object: {describedObject: {kind: Ingress, name: web, apiVersion: networking.k8s.io/v1}, metric: {name: hits}, target: {type: AverageValue, averageValue: "5"}}}
- {type: External, external: {metric: {name: queue, selector: {matchLabels: {q: "1"}}}, target: {type: Value, value: "30"}}}
- {type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "3"}}}
- {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
`, nil},
		"a behavior, as the API server writes it": {map[string]string{
			behavior: `{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}],"Tolerance":"50m"},"ScaleDown":null}`,
		}, "", eighty + "behavior: {scaleUp: {selectPolicy: Min, policies: [{type: Pods, value: 4, periodSeconds: 60}], tolerance: 50m}}\n", nil},
		"a behavior, as a person writes it": {map[string]string{behavior: `{"scaleDown":{"stabilizationWindowSeconds":600}}`}, "",
			eighty + "behavior: {scaleDown: {stabilizationWindowSeconds: 600}}\n", nil},
		"an empty behavior":   {map[string]string{behavior: `{}`}, "", eighty, nil},
		"a behavior of nulls": {map[string]string{behavior: `{"ScaleUp":null,"ScaleDown":null}`}, "", eighty, nil},
		"a behavior in small": {map[string]string{behavior: `{"scaledown":{"stabilizationWindowSeconds":600}}`}, "", eighty, []string{behavior}},
		"a behavior twice": {map[string]string{behavior: `{"ScaleDown":{"StabilizationWindowSeconds":60},"scaleDown":{"stabilizationWindowSeconds":600}}`}, "",
			eighty + "behavior: {scaleDown: {stabilizationWindowSeconds: 600}}\n", nil},
		"what is no JSON":           {map[string]string{metrics: `[{`, behavior: `secret`}, "", eighty, []string{metrics, behavior}},
		"what has other types":      {map[string]string{metrics: `{"type":"secret"}`, behavior: `["secret"]`}, "", eighty, []string{metrics, behavior}},
		"a quantity out of bounds":  {map[string]string{metrics: `[{"type":"Pods","pods":{"metricName":"a","targetAverageValue":"1e999999999"}}]`}, "", eighty, []string{metrics}},
		"a tolerance out of bounds": {map[string]string{behavior: `{"ScaleUp":{"Tolerance":"1e999999999"}}`}, "", eighty, []string{behavior}},
		"what is too long": {map[string]string{metrics: "[" + strings.Repeat(" ", 1<<20) + "]", behavior: "{" + strings.Repeat(" ", 1<<20) + "}"}, "",
			eighty, []string{metrics, behavior}},
	} {
		t.Run(name, func(t *testing.T) {
			var n Namespace
			if err := n.AddObject(formerScaler(t, c.annotations, c.percentage)); err != nil {
				t.Fatal(err)
			}
			from := n.SourceOf(foreignDeployment(nil))
			made, err := ImportOf(from)
			if err != nil {
				t.Fatal(err)
			}
			want, got := scalerBlock(t, c.want), withDefaults(from).Autoscalers[0].Spec
			if diff := cmp.Diff(want.Metrics, got.Metrics); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if got.ScaleTargetRef.Name != "web" || *got.MinReplicas != 2 || got.MaxReplicas != 5 {
				t.Errorf("the autoscaler is %+v", got)
			}
			if diff := cmp.Diff(want.Behavior, got.Behavior); diff != "" {
				t.Errorf("behavior (-want +got):\n%s", diff)
			}
			comments := made.HeadComments()
			for _, key := range c.notes {
				if !strings.Contains(comments, "HorizontalPodAutoscaler web: metadata.annotations["+key+"] cannot be decoded") {
					t.Errorf("want %s in\n%s", key, comments)
				}
			}
			if strings.Count(comments, "cannot be decoded") != len(c.notes) || strings.Contains(comments, "secret") {
				t.Errorf("the comments are\n%s", comments)
			}
		})
	}
}

// TestImportStopped imports Deployments with an autoscaler of its name, of another one, or both, stopped and not: an application that is stopped stays so, or
// a comment and the comparison say that it does not.
func TestImportStopped(t *testing.T) {
	for name, c := range map[string]struct {
		scalers     []string
		replicas    int32
		want        *int32
		said        []string
		lacks       string
		differences []string
	}{
		"own":            {[]string{"web"}, 3, nil, nil, "is 0", nil},
		"own, stopped":   {[]string{"web"}, 0, ptr.To[int32](0), []string{"is 0, so the application is stopped in spite of HorizontalPodAutoscaler web, and stays so"}, "goes on scaling", nil},
		"other":          {[]string{"theirs"}, 3, nil, []string{"metadata.name is not web, so it is not taken over; it goes on scaling the Deployment. To have"}, "is 0", nil},
		"other, stopped": {[]string{"theirs"}, 0, nil, []string{"it leaves the Deployment at 0. To have", "spec.replicas is 0, so the application is stopped; the App does not state it"}, "goes on scaling", []string{"Deployment web spec.replicas: 0 -> 1"}},
		"others, stopped": {[]string{"theirs", "more"}, 0, nil, []string{"HorizontalPodAutoscaler more: metadata.name is not web, so it is not taken over; it leaves the Deployment at 0"}, "goes on scaling",
			[]string{"Deployment web spec.replicas: 0 -> 1"}},
		"own and other, stopped": {[]string{"web", "theirs"}, 0, ptr.To[int32](0), []string{"and stays so"}, "does not state", nil},
		"other and own, stopped": {[]string{"theirs", "web"}, 0, ptr.To[int32](0), []string{"and stays so"}, "does not state", nil},
		"none, stopped":          {nil, 0, ptr.To[int32](0), nil, "is 0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			from := &Source{Deployment: foreignDeployment(func(p *corev1.PodSpec) {
				p.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("100m")}
			})}
			from.Deployment.Spec.Replicas = &c.replicas
			for _, scaler := range c.scalers {
				hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: scaler}}
				hpa.Spec.ScaleTargetRef, hpa.Spec.MaxReplicas = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, 5
				from.Autoscalers = append(from.Autoscalers, hpa)
			}
			made, err := ImportOf(from)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, made.App.Spec.Replicas); diff != "" {
				t.Errorf("replicas (-want +got): %s", diff)
			}
			comments := made.HeadComments()
			for _, want := range c.said {
				if !strings.Contains(comments, want) {
					t.Errorf("want %q in\n%s", want, comments)
				}
			}
			if strings.Contains(comments, c.lacks) || strings.Count(comments, "spec.replicas is 0") > 1 {
				t.Errorf("%q is in\n%s", c.lacks, comments)
			}
			verified, err := VerifyImport(made, from)
			if err != nil {
				t.Fatal(err)
			}
			var differences []string
			for _, d := range verified.Differences {
				differences = append(differences, d.String())
			}
			if !slices.Equal(differences, c.differences) {
				t.Errorf("the App differs in %q", differences)
			}
		})
	}
}
