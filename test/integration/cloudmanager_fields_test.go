package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/specs"
)

// manyFields are many fields of a WorkloadSpec at once, as they are stated of each tier.
const manyFields = `
replicas: 2
size: small
command: [run]
args: [--now]
envs: [{name: DEMO, value: $(DB_HOST)}]
envFrom: [{configMapRef: {name: settings}}]
imagePullPolicy: Always
ports: [{name: main, port: 8080, targetPort: 80}]
service: {type: NodePort, annotations: {at: service}, sessionAffinity: ClientIP}
probes: {readiness: {exec: {command: [ok]}}}
lifecycle: {preStop: {exec: {command: [bye]}}}
securityContext: {readOnlyRootFilesystem: true}
podSecurityContext: {runAsUser: 1000}
volumes: [{name: tmp, emptyDir: {}}]
volumeMounts: [{name: tmp, mountPath: /tmp}]
initContainers: [{name: first, image: first}]
containers: [{name: helper, image: helper}]
serviceAccountName: robot
automountServiceAccountToken: false
imagePullSecrets: [{name: pull}]
nodeSelector: {disk: ssd}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
terminationGracePeriodSeconds: 77
dnsPolicy: ClusterFirst
dnsConfig: {searches: [example.com]}
hostAliases: [{ip: 10.1.1.1, hostnames: [alias]}]
minReadySeconds: 2
revisionHistoryLimit: 4
podLabels: {at: pod}
podAnnotations: {at: pod}
labels: {at: all}
annotations: {at: all}
workloadLabels: {own: workload}
workloadAnnotations: {own: workload}
podTemplatePatch: {spec: {schedulerName: mine}}
`

// TestCloudManagerFields states many fields of each tier at once, and looks for them in what lives. Each kind of workload
// object has them all, as an App's has, and the tier's own next to them.
func TestCloudManagerFields(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	playControllers(t, ns)
	cm := newCloudManager(ns)
	for _, spec := range []*appv1.WorkloadSpec{
		&cm.Spec.DB.StatefulSet.WorkloadSpec, &cm.Spec.Identity.Deployment.WorkloadSpec, &cm.Spec.Front.Deployment.WorkloadSpec,
	} {
		setFields(t, spec, manyFields)
	}
	plane.Create(t, cm)
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	m.Idle(t)

	app := newApp(ns, "twin")
	app.Spec.WorkloadSpec = appv1.WorkloadSpec{Image: "nginx:1.20"}
	setFields(t, &app.Spec.WorkloadSpec, manyFields)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=True")
	like := lookup(t, deployment(app))
	set, identity, front := lookup(t, namedStatefulSet(ns, "db")), lookup(t, namedDeployment(ns, "identity")), lookup(t, namedDeployment(ns, "front"))
	for _, obj := range []client.Object{set, identity, front} {
		if obj.GetLabels()["own"] != "workload" || obj.GetAnnotations()["own"] != "workload" {
			t.Errorf("%T %s has labels %v and annotations %v", obj, obj.GetName(), obj.GetLabels(), obj.GetAnnotations())
		}
	}
	for name, template := range map[string]corev1.PodTemplateSpec{
		"db": set.Spec.Template, "identity": identity.Spec.Template, "front": front.Spec.Template,
	} {
		main := &template.Spec.Containers[0]
		if len(main.Env) < 3 || main.Env[len(main.Env)-1].Name != "DEMO" {
			t.Errorf("%s: variables %+v", name, main.Env)
		}
		main.Name, main.Image = "twin", "nginx:1.20"
		main.Env = main.Env[len(main.Env)-1:]
		if name == "db" {
			last := len(main.VolumeMounts) - 1
			if main.VolumeMounts[last].Name != "datadir" || main.VolumeMounts[last].MountPath != "/var/lib/mysql" {
				t.Errorf("mounts of the database: %+v", main.VolumeMounts)
			}
			main.VolumeMounts = main.VolumeMounts[:last]
		}
		spread := &template.Spec.TopologySpreadConstraints[0]
		if spread.LabelSelector.MatchLabels[appv1.LabelPart] != name {
			t.Errorf("%s is spread among %v", name, spread.LabelSelector)
		}
		spread.LabelSelector = like.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector
		if diff := cmp.Diff(like.Spec.Template.Spec, template.Spec); diff != "" {
			t.Errorf("the pods of %s differ from those of an App (-App +tier):\n%s", name, diff)
		}
		if template.Labels["at"] != "pod" || template.Annotations["at"] != "pod" {
			t.Errorf("%s: %+v", name, template.ObjectMeta)
		}
		s := lookup(t, namedService(ns, name))
		if s.Spec.Type != corev1.ServiceTypeNodePort || s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP ||
			s.Annotations["at"] != "service" || s.Labels["at"] != "all" || s.Spec.Ports[0].Port != 8080 {
			t.Errorf("Service %s: %+v %+v", name, s.ObjectMeta, s.Spec)
		}
	}
	if set.Spec.MinReadySeconds != 2 || *set.Spec.RevisionHistoryLimit != 4 || *set.Spec.Replicas != 2 || set.Annotations["at"] != "all" ||
		*front.Spec.RevisionHistoryLimit != 4 || front.Spec.MinReadySeconds != 2 || *identity.Spec.Replicas != 2 {
		t.Errorf("StatefulSet: %+v", set.Spec)
	}
	if headless := lookup(t, namedService(ns, "db-headless")); headless.Spec.ClusterIP != corev1.ClusterIPNone || headless.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the headless Service: %+v", headless.Spec)
	}
	for _, env := range front.Spec.Template.Spec.Containers[0].Env {
		if env.Name == "IDENTITY_PORT" && env.Value != "8080" || env.Name == "DB_PORT" && env.Value != "8080" {
			t.Errorf("front is told %s=%s", env.Name, env.Value)
		}
	}
	if cm.Status.DB.Size == "" || !strings.HasPrefix(cm.Status.DB.Endpoint, "db."+ns+".svc:8080 nodes:") {
		t.Errorf("status of the database: %+v", cm.Status.DB)
	}
}

// TestCloudManagerRandomSpecs applies random specs of tiers. The API server must take every object, and once it has, there
// must be nothing to do: neither for the manager that wrote them, nor for one that knows nothing but what lives.
func TestCloudManagerRandomSpecs(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	playControllers(t, ns)
	src := specs.Random(t)
	m := plane.Start(t, ns)
	count := specs.Number(t, "FUZZ_APPS", fixture.Of(60, 150)) / 10
	tier := func() (spec map[string]any) {
		knownToServer(t, plane, func() *unstructured.Unstructured {
			spec = withoutRole(specs.Accepted(src))
			app := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			app.SetGroupVersionKind(appv1.GroupVersion.WithKind("App"))
			app.SetNamespace(ns)
			app.SetName("tier")
			return app
		})
		return spec
	}
	random := make([]*unstructured.Unstructured, count)
	for i := range random {
		random[i] = knownToServer(t, plane, func() *unstructured.Unstructured { // A tier has a Service even without ports.
			db := tier()
			for _, field := range notOfDatabases {
				delete(db, field)
			}
			db["storage"] = map[string]any{"size": "1Gi"}
			cm := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"front":    map[string]any{"deployment": tier()},
				"identity": map[string]any{"deployment": tier()},
				"db":       map[string]any{"statefulSet": db},
			}}}
			cm.SetGroupVersionKind(appv1.GroupVersion.WithKind("CloudManager"))
			cm.SetNamespace(ns)
			cm.SetName(fmt.Sprintf("cm-%d", i))
			return cm
		})
	}
	forEachNumber(t, count, func(i int) {
		plane.Create(t, random[i])
		cm := newCloudManager(ns)
		cm.Name = random[i].GetName()
		plane.Until(t, cm, func() error {
			if cm.Status.Phase != appv1.PhaseReady {
				text, _ := json.Marshal(random[i].Object["spec"])
				return fmt.Errorf("%s is %s: %+v\n%.3000s", cm.Name, cm.Status.Phase, cm.Status.Conditions, text)
			}
			return nil
		})
	})
	m.Idle(t)
	for write, n := range m.Requests.Writes() {
		if most := map[string]int{"patch statefulsets": 1, "patch deployments": 2, "patch secrets": 1, "patch services": 4}[write]; most != 0 && n > most*count {
			t.Errorf("%d times %s for %d CloudManagers", n, write, count)
		}
	}
	m.Stop(t)
	checkRequests(t, plane.Start(t, ns), "restart", map[string]int{})
}
