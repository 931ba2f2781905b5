package specs

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// fixes make a value of a type agree with rules of the API server that no single field has.
var fixes = map[reflect.Type]func(*generator, map[string]any){
	reflect.TypeFor[corev1.VolumeMount](): func(_ *generator, made map[string]any) {
		exclusive(made, "subPath", "subPathExpr")
		needs(made, "recursiveReadOnly", "readOnly")
	},
	reflect.TypeFor[corev1.ExecAction](): func(g *generator, made map[string]any) {
		made["command"] = pick(g, []any{"true"}, []any{"sh", "-c", ""})
	},
	reflect.TypeFor[corev1.ContainerRestartRule](): func(g *generator, made map[string]any) {
		made["action"] = "Restart"
		if made["exitCodes"] == nil {
			made["exitCodes"] = map[string]any{"operator": "In", "values": []any{int64(g.IntN(256))}}
		}
	},
	reflect.TypeFor[corev1.ContainerRestartRuleOnExitCodes](): func(g *generator, made map[string]any) {
		made["operator"] = pick(g, "In", "NotIn")
		if made["values"] == nil {
			made["values"] = []any{int64(1)}
		}
	},
	reflect.TypeFor[corev1.ImageVolumeSource](): func(_ *generator, made map[string]any) {
		made["reference"] = "registry.example.com/files:1"
	},
	reflect.TypeFor[corev1.PodAffinityTerm]():          fixTerm,
	reflect.TypeFor[corev1.TopologySpreadConstraint](): fixTerm,
	reflect.TypeFor[corev1.SeccompProfile]():           fixProfile,
	reflect.TypeFor[corev1.AppArmorProfile]():          fixProfile,
	reflect.TypeFor[corev1.HTTPGetAction]():            numbered,
	reflect.TypeFor[corev1.TCPSocketAction]():          numbered,
	reflect.TypeFor[corev1.PodSecurityContext]():       notRoot,
	reflect.TypeFor[corev1.SecurityContext](): func(g *generator, made map[string]any) {
		notRoot(g, made)
		if made["privileged"] != nil {
			made["allowPrivilegeEscalation"] = true
		}
	},
	reflect.TypeFor[corev1.NodeSelectorTerm](): func(g *generator, made map[string]any) {
		made["matchExpressions"] = pick(g, []any{map[string]any{"key": "a", "operator": "Exists"}},
			[]any{map[string]any{"key": "b", "operator": "In", "values": []any{"1", "2"}}, map[string]any{"key": "c", "operator": "Gt", "values": []any{"1"}}})
		if made["matchFields"] != nil {
			made["matchFields"] = []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{"node"}}}
		}
	},
	reflect.TypeFor[corev1.PodDNSConfigOption](): func(_ *generator, made map[string]any) { made["name"] = "ndots" },

	reflect.TypeFor[corev1.KeyToPath]():                     uniquePath,
	reflect.TypeFor[corev1.ServiceAccountTokenProjection](): uniquePath,
	reflect.TypeFor[corev1.DownwardAPIVolumeFile](): func(g *generator, made map[string]any) {
		uniquePath(g, made)
		delete(made, "fieldRef")
		delete(made, "resourceFieldRef")
		if g.IntN(2) == 1 {
			made["resourceFieldRef"] = map[string]any{"containerName": "side-0", "resource": "limits.cpu", "divisor": pick[any](g, "1m", int64(1))}
		} else {
			made["fieldRef"] = pick(g, map[string]any{"fieldPath": "metadata.name"}, map[string]any{"apiVersion": "v1", "fieldPath": "metadata.labels"})
		}
	},
	reflect.TypeFor[corev1.PodCertificateProjection](): func(_ *generator, made map[string]any) {
		made["signerName"], made["keyType"] = "example.com/a", "ED25519"
	},
	reflect.TypeFor[corev1.SecretVolumeSource](): func(_ *generator, made map[string]any) { made["secretName"] = "secret" },
	reflect.TypeFor[corev1.FCVolumeSource](): func(_ *generator, made map[string]any) {
		if made["targetWWNs"] = []any{"a"}; made["lun"] != nil {
			delete(made, "wwids")
			return
		}
		delete(made, "targetWWNs")
		made["wwids"] = []any{"a"}
	},
	reflect.TypeFor[corev1.FlockerVolumeSource](): func(_ *generator, made map[string]any) {
		if exclusive(made, "datasetName", "datasetUUID"); len(made) == 0 {
			made["datasetUUID"] = "a"
		}
	},
	reflect.TypeFor[corev1.AzureDiskVolumeSource](): func(_ *generator, made map[string]any) { made["kind"] = "Managed" },
	reflect.TypeFor[corev1.ScaleIOVolumeSource]():   volumeName,
	reflect.TypeFor[corev1.StorageOSVolumeSource](): volumeName,
	reflect.TypeFor[corev1.ISCSIVolumeSource](): func(_ *generator, made map[string]any) {
		needs(made, "chapAuthDiscovery", "secretRef")
		needs(made, "chapAuthSession", "secretRef")
	},
	reflect.TypeFor[corev1.PersistentVolumeClaimSpec](): func(g *generator, made map[string]any) {
		made["resources"] = pick(g, map[string]any{"requests": map[string]any{"storage": "0.5Gi"}},
			map[string]any{"requests": map[string]any{"storage": int64(1)}, "limits": map[string]any{"storage": "1500m"}})
		if made["accessModes"] == nil {
			made["accessModes"] = []any{"ReadWriteOnce"}
		}
		exclusive(made, "dataSource", "dataSourceRef")
	},
}

// numbered makes the port of a probe or an action a number: a name has to be that of a port of the same container.
func numbered(g *generator, made map[string]any) { made["port"] = pick(g, int64(80), int64(65535)) }

// notRoot makes the user another one than root, which does not go with runAsNonRoot of the container or of the pod.
func notRoot(_ *generator, made map[string]any) {
	if made["runAsUser"] != nil {
		made["runAsUser"] = int64(1000)
	}
}

// fixTerm drops what goes with a selector of labels where there is none.
func fixTerm(_ *generator, made map[string]any) {
	needs(made, "matchLabelKeys", "labelSelector")
	needs(made, "mismatchLabelKeys", "labelSelector")
}

// fixProfile states the type that goes with a profile by name.
func fixProfile(_ *generator, made map[string]any) {
	if made["localhostProfile"] != nil {
		made["type"] = "Localhost"
	}
}

// uniquePath makes the path of a file that of no other.
func uniquePath(g *generator, made map[string]any) {
	g.pathsMade++
	made["path"] = fmt.Sprintf("a/%d", g.pathsMade)
}

func volumeName(_ *generator, made map[string]any) { made["volumeName"] = "a" }

// exclusive drops the second of two fields if there are both.
func exclusive(made map[string]any, first, second string) {
	if made[first] != nil {
		delete(made, second)
	}
}

// needs drops a field if there is not the one that it goes with.
func needs(made map[string]any, field, other string) {
	if made[other] == nil {
		delete(made, field)
	}
}
