package secrecy

import (
	"index/suffixarray"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// publicNames collects the words that answers about objects have in order to name what is missing or wrong. A word that it leaves out only makes more
// words hidden: it has no other use than to keep parts of values from being private.
type publicNames struct {
	seen  map[string]bool
	words []string
	bytes int
}

// add adds names as long as they are within the limits.
func (p *publicNames) add(names ...string) {
	for _, name := range names {
		if length := len(name) + 1; name != "" && len(name) <= maxPublicName && p.bytes+length <= maxPublicBytes && !p.seen[name] {
			p.seen[name] = true
			p.words = append(p.words, name)
			p.bytes += length
		}
	}
}

// indexPublic returns an index of publicWords: a look-up takes about as long as the part of a value is, however long the words are.
func indexPublic(objects []Object) *suffixarray.Index {
	return suffixarray.New([]byte(publicWords(objects)))
}

// publicWords returns the names of the objects, and those in their pod templates, each in a line. No part of a value has a line break.
func publicWords(objects []Object) string {
	public := &publicNames{seen: map[string]bool{}}
	for _, obj := range objects {
		public.add(obj.GetName(), obj.GetNamespace())
		if template := templateOf(obj); template != nil {
			addNames(&template.Spec, public.add)
		}
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			for i := range set.Spec.VolumeClaimTemplates {
				public.add(set.Spec.VolumeClaimTemplates[i].Name)
			}
		}
	}
	return strings.Join(public.words, "\n")
}

// addNames adds the names in a pod spec: of containers, images, variables, volumes, classes, accounts, and of objects with their keys. As there is room for a
// part of them only, the names of all containers are before the references of any.
func addNames(pod *corev1.PodSpec, add func(...string)) {
	add(pod.ServiceAccountName, pod.PriorityClassName, pod.SchedulerName, ptr.Deref(pod.RuntimeClassName, ""))
	for _, secret := range pod.ImagePullSecrets {
		add(secret.Name)
	}
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		add(v.Name)
		if v.Secret != nil {
			add(v.Secret.SecretName)
		}
		if v.ConfigMap != nil {
			add(v.ConfigMap.Name)
		}
		if v.PersistentVolumeClaim != nil {
			add(v.PersistentVolumeClaim.ClaimName)
		}
		if v.Projected != nil {
			addSources(v.Projected.Sources, add)
		}
	}
	lists := [][]corev1.Container{pod.Containers, pod.InitContainers}
	for _, list := range lists {
		for i := range list {
			add(list[i].Name, list[i].Image)
		}
	}
	for _, list := range lists {
		for i := range list {
			addReferences(&list[i], add)
		}
	}
}

// addSources adds the names of the Secrets and ConfigMaps of a projected volume.
func addSources(sources []corev1.VolumeProjection, add func(...string)) {
	for i := range sources {
		if secret := sources[i].Secret; secret != nil {
			add(secret.Name)
		}
		if config := sources[i].ConfigMap; config != nil {
			add(config.Name)
		}
	}
}

// addReferences adds the names of variables, and of the objects and keys that they are from.
func addReferences(of *corev1.Container, add func(...string)) {
	for i := range of.EnvFrom {
		if ref := of.EnvFrom[i].SecretRef; ref != nil {
			add(ref.Name)
		}
		if ref := of.EnvFrom[i].ConfigMapRef; ref != nil {
			add(ref.Name)
		}
	}
	for i := range of.Env {
		add(of.Env[i].Name)
		from := of.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if ref := from.SecretKeyRef; ref != nil {
			add(ref.Name, ref.Key)
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			add(ref.Name, ref.Key)
		}
	}
}
