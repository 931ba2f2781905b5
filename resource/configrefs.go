package resource

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The kinds of objects whose content pods use.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
)

// ConfigReference is a ConfigMap or Secret that a pod template refers to, with the keys in use.
type ConfigReference struct {
	Kind, Name string
	// Optional is true where pods start without the object.
	Optional bool
	// all is true where each key is in use, text where each key is that can be a variable: one whose value is text.
	all, text bool
	// keys are further keys in use, true where pods do not start without the key.
	keys map[string]bool
}

// ID is the reference in a record, such as "ConfigMap/settings".
func (r *ConfigReference) ID() string { return r.Kind + "/" + r.Name }

// ConfigReferences returns the ConfigMaps and Secrets whose content the containers of a pod template use, sorted: as variables, and
// as files of volumes that are mounted. Credentials for the kubelet, such as those for pulling images and for mounting volumes,
// are no content of a container.
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

// referencesByID are references on the way to being complete.
type referencesByID map[string]*ConfigReference

// add returns the reference to an object, which one more place of the template refers to.
func (f referencesByID) add(kind, name string, optional *bool) *ConfigReference {
	r := &ConfigReference{Kind: kind, Name: name, Optional: true, keys: map[string]bool{}}
	if known := f[r.ID()]; known != nil {
		r = known
	}
	if name != "" { // The API server refuses most references without a name, and the kubelet the rest.
		f[r.ID()] = r
	}
	r.Optional = r.Optional && ptr.Deref(optional, false)
	return r
}

// addKey notes that a key is in use.
func (r *ConfigReference) addKey(key string, optional *bool) {
	r.keys[key] = r.keys[key] || !ptr.Deref(optional, false)
}

func (f referencesByID) addVariable(source *corev1.EnvVarSource) {
	if source == nil {
		return
	}
	if s := source.ConfigMapKeyRef; s != nil {
		f.add(KindConfigMap, s.Name, s.Optional).addKey(s.Key, s.Optional)
	}
	if s := source.SecretKeyRef; s != nil {
		f.add(KindSecret, s.Name, s.Optional).addKey(s.Key, s.Optional)
	}
}

func (f referencesByID) addVariables(source *corev1.EnvFromSource) {
	if s := source.ConfigMapRef; s != nil {
		f.add(KindConfigMap, s.Name, s.Optional).text = true
	}
	if s := source.SecretRef; s != nil {
		f.add(KindSecret, s.Name, s.Optional).text = true
	}
}

func (f referencesByID) addVolume(v *corev1.Volume, used mounted) {
	if s := v.ConfigMap; s != nil {
		f.add(KindConfigMap, s.Name, s.Optional).addFiles(s.Items, s.Optional, used)
	}
	if s := v.Secret; s != nil {
		f.add(KindSecret, s.SecretName, s.Optional).addFiles(s.Items, s.Optional, used)
	}
	if v.Projected == nil {
		return
	}
	for i := range v.Projected.Sources {
		if s := v.Projected.Sources[i].ConfigMap; s != nil {
			f.add(KindConfigMap, s.Name, s.Optional).addFiles(s.Items, s.Optional, used)
		}
		if s := v.Projected.Sources[i].Secret; s != nil {
			f.add(KindSecret, s.Name, s.Optional).addFiles(s.Items, s.Optional, used)
		}
	}
}

// addFiles notes which keys are files of a volume that containers mount: those of its items, or all.
func (r *ConfigReference) addFiles(items []corev1.KeyToPath, optional *bool, used mounted) {
	for i := range items {
		if used.covers(items[i].Path) {
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
			r.addKey(key, ptr.To(true)) // The kubelet makes an empty directory of what is not there.
		}
	}
}

// mounted says what containers mount of a volume: the whole, or some paths in it.
type mounted struct {
	whole bool
	paths []string
}

// mountedPaths returns what the containers of a pod mount of a volume.
func mountedPaths(spec *corev1.PodSpec, volume string) mounted {
	var used mounted
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for i := range c.VolumeMounts {
			m := &c.VolumeMounts[i]
			switch {
			case m.Name != volume:
			case m.SubPath == "" || m.SubPathExpr != "": // An expression stands for any path.
				used.whole = true
			default:
				used.paths = append(used.paths, path.Clean(m.SubPath))
			}
		}
	}
	return used
}

// covers reports whether a file of the volume is below what is mounted.
func (m *mounted) covers(file string) bool {
	file = path.Clean(file)
	return m.whole || slices.ContainsFunc(m.paths, func(p string) bool {
		return p == "." || p == file || strings.HasPrefix(file, p+"/")
	})
}
