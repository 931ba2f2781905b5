package specs

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// values are what a field of Kubernetes' own types may be, by "<Go type>.<JSON name>". One without an entry takes any
// value of its type.
var values = map[string][]any{
	"AppArmorProfile.type":                   {"RuntimeDefault", "Unconfined"},
	"AzureDiskVolumeSource.cachingMode":      {"None", "ReadOnly", "ReadWrite"},
	"AzureDiskVolumeSource.diskURI":          {"/subscriptions/a"},
	"Capabilities.add":                       {[]any{"NET_ADMIN"}, []any{"CHOWN", "KILL"}, []any{}},
	"Capabilities.drop":                      {[]any{"ALL"}, []any{}},
	"CephFSVolumeSource.monitors":            {[]any{"a"}, []any{"a", "b:1"}},
	"ClusterTrustBundleProjection.name":      {"bundle"},
	"ContainerResizePolicy.resourceName":     {"cpu", "memory"},
	"ContainerResizePolicy.restartPolicy":    {"NotRequired", "RestartContainer"},
	"ContainerRestartRuleOnExitCodes.values": {[]any{int64(0)}, []any{int64(1), int64(255)}},
	"EmptyDirVolumeSource.medium":            {"", "Memory", "HugePages", "HugePages-2Mi"},
	"FCVolumeSource.lun":                     {int64(0), int64(255)},
	"GRPCAction.service":                     {"", "health"},
	"GitRepoVolumeSource.directory":          {"a/b"},
	"HTTPGetAction.path":                     {"/", "/healthz?a=b"},
	"HTTPGetAction.scheme":                   {"HTTP", "HTTPS"},
	"HTTPHeader.name":                        {"X-A", "Host"},
	"HostPathVolumeSource.path":              {"/var/log", "relative"},
	"HostPathVolumeSource.type":              {"", "Directory", "FileOrCreate"},
	"ISCSIVolumeSource.initiatorName":        {"iqn.2001-04.com.example:initiator"},
	"ISCSIVolumeSource.iqn":                  {"iqn.2001-04.com.example:storage.disk1", "eui.0123456789abcdef"},
	"ISCSIVolumeSource.lun":                  {int64(0), int64(255)},
	"ImageVolumeSource.pullPolicy":           {"Always", "IfNotPresent", "Never"},
	"KeyToPath.key":                          {"key", ".hidden"},
	"Lifecycle.stopSignal":                   {"SIGUSR1", "SIGTERM"},
	"NFSVolumeSource.path":                   {"/exports"},
	"NodeSelector.nodeSelectorTerms": {
		[]any{map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{"node"}}}}},
		[]any{map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "Exists"}}},
			map[string]any{"matchExpressions": []any{map[string]any{"key": "b", "operator": "Gt", "values": []any{"1"}}}}},
	},
	"ParentRef.name":                                  {"public", "private"},
	"PersistentVolumeClaimSpec.accessModes":           {[]any{"ReadWriteOnce"}, []any{"ReadOnlyMany", "ReadWriteMany"}, []any{"ReadWriteOncePod"}},
	"PersistentVolumeClaimSpec.volumeMode":            {"Block", "Filesystem"},
	"PodAffinityTerm.matchLabelKeys":                  {[]any{"pod-template-hash"}, []any{}},
	"PodAffinityTerm.mismatchLabelKeys":               {[]any{"tenant"}, []any{}},
	"PodCertificateProjection.keyType":                {"ED25519"},
	"PodDNSConfig.nameservers":                        {[]any{"1.1.1.1"}, []any{"8.8.8.8", "2001:db8::1"}, []any{}},
	"PodSecurityContext.fsGroupChangePolicy":          {"OnRootMismatch", "Always"},
	"PodSecurityContext.seLinuxChangePolicy":          {"Recursive"},
	"PodSecurityContext.supplementalGroupsPolicy":     {"Merge", "Strict"},
	"PodSecurityContext.sysctls":                      {[]any{}, []any{map[string]any{"name": "kernel.shm_rmid_forced", "value": "1"}}},
	"Probe.successThreshold":                          {int64(1)},
	"QuobyteVolumeSource.registry":                    {"host:1", "a:2,b:3"},
	"RBDVolumeSource.monitors":                        {[]any{"a"}, []any{"a", "b:1"}},
	"SeccompProfile.type":                             {"RuntimeDefault", "Unconfined"},
	"SecurityContext.privileged":                      {true},
	"SecurityContext.procMount":                       {"Default"},
	"ServiceAccountTokenProjection.expirationSeconds": {int64(600), int64(3600), int64(86400)},
	"SleepAction.seconds":                             {int64(0)},
	"TopologySpreadConstraint.matchLabelKeys":         {[]any{"pod-template-hash"}, []any{}},
	"TopologySpreadConstraint.nodeAffinityPolicy":     {"Honor", "Ignore"},
	"TopologySpreadConstraint.nodeTaintsPolicy":       {"Honor", "Ignore"},
	"VolumeMount.mountPropagation":                    {"None"},
	"VolumeMount.readOnly":                            {true},
	"VolumeMount.recursiveReadOnly":                   {"IfPossible", "Disabled", "Enabled"},
	"WindowsSecurityContextOptions.hostProcess":       {false},
	"WindowsSecurityContextOptions.runAsUserName":     {"ContainerUser"},
}

// newer are fields that these types have and the Kubernetes of the tests does not know yet; they are never made.
var newer = []string{
	"ClusterTrustBundleProjection.user", "ConfigMapVolumeSource.defaultUser", "DownwardAPIVolumeFile.user",
	"DownwardAPIVolumeSource.defaultUser", "EmptyDirVolumeSource.mode", "GRPCAction.mode", "HTTPGetAction.protocol",
	"KeyToPath.user", "PodCertificateProjection.user", "ProjectedVolumeSource.defaultUser",
	"SecretVolumeSource.defaultUser", "ServiceAccountTokenProjection.user", "VolumeMount.bindMountOptions",
}

// gated are fields that the API server of the tests drops, as what they are for is not enabled, or our schemas do not have them.
var gated = []string{
	"TypedObjectReference.namespace", "VolumeProjection.clusterTrustBundle", "VolumeProjection.podCertificate",
	"Lifecycle.stopSignal", "PodSpec.schedulingGroup", "PodSpec.evictionResponders",
	"VolumeSource.awsElasticBlockStore", "VolumeSource.azureDisk", "VolumeSource.azureFile", "VolumeSource.cephfs",
	"VolumeSource.cinder", "VolumeSource.flocker", "VolumeSource.gcePersistentDisk", "VolumeSource.gitRepo",
	"VolumeSource.glusterfs", "VolumeSource.photonPersistentDisk", "VolumeSource.portworxVolume", "VolumeSource.quobyte",
	"VolumeSource.rbd", "VolumeSource.scaleIO", "VolumeSource.storageos", "VolumeSource.vsphereVolume",
}

// unions are the types with one field that may be set.
var unions = []reflect.Type{
	reflect.TypeFor[corev1.LifecycleHandler](), reflect.TypeFor[corev1.ProbeHandler](),
	reflect.TypeFor[corev1.VolumeProjection](), reflect.TypeFor[corev1.VolumeSource](),
}

// typed returns a random value of a type of Kubernetes', as JSON has it.
func (g *generator) typed(typ reflect.Type) any {
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		return pick[any](g, "1Mi", "0.5", "1e3", int64(1), "1500m")
	case reflect.TypeFor[intstr.IntOrString]():
		return pick[any](g, int64(80), "http", int64(65535))
	case reflect.TypeFor[corev1.ResourceList]():
		return map[string]any{"storage": pick[any](g, "1Gi", "0.5Gi", int64(1), "1500m")}
	case reflect.TypeFor[metav1.LabelSelector]():
		return g.labelSelector()
	case reflect.TypeFor[metav1.ObjectMeta]():
		return map[string]any{"labels": g.labels(), "annotations": g.annotations()}
	case reflect.TypeFor[corev1.LocalObjectReference]():
		return map[string]any{"name": pick(g, "config", "a.b-c")}
	case reflect.TypeFor[corev1.ObjectFieldSelector]():
		_, ref := g.fieldRef()
		return ref
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return g.typed(typ.Elem())
	case reflect.Bool:
		return g.IntN(2) == 1
	case reflect.Int32, reflect.Int64:
		return pick(g, int64(1), 2, 100)
	case reflect.Slice:
		return g.list(typ.Elem(), 0)
	case reflect.Map:
		return g.annotations()
	case reflect.Struct:
		return g.made(typ)
	default:
		return pick(g, "a", "b-1")
	}
}

// list returns up to two items, and at least as many as said.
func (g *generator) list(typ reflect.Type, least int) any {
	list := make([]any, least+g.IntN(3-least))
	for i := range list {
		list[i] = g.typed(typ)
	}
	return list
}

// made returns a value of a struct: the fields that must be there, and two in three of the others.
func (g *generator) made(typ reflect.Type) map[string]any {
	made := map[string]any{}
	all := slices.DeleteFunc(reflect.VisibleFields(typ), func(f reflect.StructField) bool {
		key := typ.Name() + "." + jsonName(f)
		return len(f.Index) > 1 || slices.Contains(newer, key) || g.accepted && slices.Contains(gated, key)
	})
	if slices.Contains(unions, typ) {
		one := pick(g, all...)
		return map[string]any{jsonName(one): g.typed(one.Type)}
	}
	for _, f := range all {
		name := jsonName(f)
		if name == "" {
			inner, _ := g.typed(f.Type).(map[string]any)
			for key, value := range inner {
				made[key] = value
			}
			continue
		}
		value := func() any { return g.typed(f.Type) }
		if choices := values[typ.Name()+"."+name]; choices != nil {
			value = func() any { return copied(pick(g, choices...)) }
		}
		if strings.Contains(f.Tag.Get("json"), ",omitempty") && f.Type != reflect.TypeFor[*corev1.PersistentVolumeClaimTemplate]() {
			g.maybe(made, name, value)
		} else {
			made[name] = value()
		}
	}
	if typ == reflect.TypeFor[corev1.Container]() {
		g.container(made)
	}
	if fix := fixes[typ]; fix != nil {
		fix(g, made)
	}
	return made
}

// jsonName is the name of a field in JSON, empty for a type that is inlined.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
