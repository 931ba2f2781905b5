package resource

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The kinds of objects with content that pods use.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
)

// ConfigReference is a ConfigMap or Secret that a pod template refers to, with the keys in use.
type ConfigReference struct {
	Kind, Name string
	// Optional is true if pods start without the object.
	Optional bool
	// all is true if every key is in use; text is true if every key with a text value is in use, as with envFrom.
	all, text bool
	// keys are further keys in use; a key is true if pods do not start without it.
	keys map[string]bool
}

// ID returns the key of the reference in a record, such as "ConfigMap/settings".
func (r *ConfigReference) ID() string { return r.Kind + "/" + r.Name }

// ConfigReferences returns the ConfigMaps and Secrets that the containers of a pod template use as variables and as files of
// mounted volumes, sorted by ID. It leaves out credentials for the kubelet, such as imagePullSecrets and secrets for mounting
// volumes.
func ConfigReferences(template *corev1.PodTemplateSpec) []ConfigReference {
	found := referencesByID{}
	spec := &template.Spec
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for i := range c.Env {
			found.addVariable(c.Env[i].ValueFrom)
		}
		for i := range c.EnvFrom {
			found.addVariables(&c.EnvFrom[i])
		}
	}
	for i := range spec.Volumes {
		if used := mountedPaths(spec, spec.Volumes[i].Name); used.whole || len(used.paths) > 0 {
			found.addVolume(&spec.Volumes[i], used)
		}
	}
	var sorted []ConfigReference
	for _, id := range slices.Sorted(maps.Keys(found)) {
		sorted = append(sorted, *found[id])
	}
	return sorted
}

// referencesByID collects references by their ID.
type referencesByID map[string]*ConfigReference

// addReference returns the reference to an object, new or known, and clears Optional if this place of the template requires the object.
func (f referencesByID) addReference(kind, name string, optional *bool) *ConfigReference {
	r := &ConfigReference{Kind: kind, Name: name, Optional: true, keys: map[string]bool{}}
	if known := f[r.ID()]; known != nil {
		r = known
	}
	if name != "" { // The API server or the kubelet rejects a reference without a name.
		f[r.ID()] = r
	}
	r.Optional = r.Optional && ptr.Deref(optional, false)
	return r
}

// addKey records a key in use.
func (r *ConfigReference) addKey(key string, optional *bool) {
	r.keys[key] = r.keys[key] || !ptr.Deref(optional, false)
}

func (f referencesByID) addVariable(source *corev1.EnvVarSource) {
	if source == nil {
		return
	}
	if s := source.ConfigMapKeyRef; s != nil {
		f.addReference(KindConfigMap, s.Name, s.Optional).addKey(s.Key, s.Optional)
	}
	if s := source.SecretKeyRef; s != nil {
		f.addReference(KindSecret, s.Name, s.Optional).addKey(s.Key, s.Optional)
	}
}

func (f referencesByID) addVariables(source *corev1.EnvFromSource) {
	if s := source.ConfigMapRef; s != nil {
		f.addReference(KindConfigMap, s.Name, s.Optional).text = true
	}
	if s := source.SecretRef; s != nil {
		f.addReference(KindSecret, s.Name, s.Optional).text = true
	}
}

func (f referencesByID) addVolume(v *corev1.Volume, used mounted) {
	if s := v.ConfigMap; s != nil {
		f.addReference(KindConfigMap, s.Name, s.Optional).addFiles(s.Items, s.Optional, used)
	}
	if s := v.Secret; s != nil {
		f.addReference(KindSecret, s.SecretName, s.Optional).addFiles(s.Items, s.Optional, used)
	}
	if v.Projected == nil {
		return
	}
	for i := range v.Projected.Sources {
		if s := v.Projected.Sources[i].ConfigMap; s != nil {
			f.addReference(KindConfigMap, s.Name, s.Optional).addFiles(s.Items, s.Optional, used)
		}
		if s := v.Projected.Sources[i].Secret; s != nil {
			f.addReference(KindSecret, s.Name, s.Optional).addFiles(s.Items, s.Optional, used)
		}
	}
}

// addFiles records the keys that are files of a mounted volume: the keys of the items, or all keys.
func (r *ConfigReference) addFiles(items []corev1.KeyToPath, optional *bool, used mounted) {
	for i := range items {
		if used.coversFile(items[i].Path) {
			r.addKey(items[i].Key, optional)
		}
	}
	switch {
	case len(items) > 0:
	case used.whole:
		r.all = true
	default:
		for _, file := range used.paths {
			key, _, _ := strings.Cut(file, "/")
			r.addKey(key, ptr.To(true)) // The kubelet creates an empty directory for a missing key.
		}
	}
}

// mounted holds the mounted parts of a volume: the whole volume, or some paths in it.
type mounted struct {
	whole bool
	paths []string
}

// mountedPaths returns the parts of a volume that the containers of a pod mount.
func mountedPaths(spec *corev1.PodSpec, volume string) mounted {
	var used mounted
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for i := range c.VolumeMounts {
			m := &c.VolumeMounts[i]
			switch {
			case m.Name != volume:
			case m.SubPath == "" || m.SubPathExpr != "": // An expression can expand to any path.
				used.whole = true
			default:
				used.paths = append(used.paths, path.Clean(m.SubPath))
			}
		}
	}
	return used
}

// coversFile reports whether a file of the volume is below a mounted path.
func (m *mounted) coversFile(file string) bool {
	file = path.Clean(file)
	return m.whole || slices.ContainsFunc(m.paths, func(p string) bool {
		return p == "." || p == file || strings.HasPrefix(file, p+"/")
	})
}
