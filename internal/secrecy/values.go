package secrecy

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// maxPartBytes is how much of the values of one object, in bytes, has Parts, as it takes the more time to look for them the more there are.
const maxPartBytes = 64 << 10

// privateValues returns the values of the annotations of objects, and of the variables, arguments, commands, headers, queries of probes, attributes of
// CSI volumes and annotations of their pods, the longest first. All but the annotations, which record whole specs, have Parts, too. The operator's own
// annotations are no secrets but for the record of a spec.
func privateValues(objects ...Object) []string {
	all, _ := fewPrivateValues(math.MaxInt, objects...)
	return all
}

// fewPrivateValues is privateValues for a number of values at most, not counting their parts. few is false if there are more.
func fewPrivateValues(most int, objects ...Object) (all []string, few bool) {
	objects = slices.DeleteFunc(slices.Clone(objects), isNil)
	public := publicWords(objects)
	for _, obj := range objects {
		found := &collector{most: most - len(all), public: public}
		found.addAnnotations(obj.GetAnnotations())
		if cron, ok := obj.(*batchv1.CronJob); ok {
			found.addAnnotations(cron.Spec.JobTemplate.Annotations)
		}
		if template := templateOf(obj); template != nil {
			found.addAnnotations(template.Annotations)
			found.addPodSpec(&template.Spec)
		}
		if len(found.values) > found.most {
			return nil, false
		}
		all = slices.Concat(all, found.values, found.parts)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all), true
}

// templateOf returns the pod template of an object, nil if it has none.
func templateOf(obj Object) *corev1.PodTemplateSpec {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Template
	case *appsv1.StatefulSet:
		return &obj.Spec.Template
	case *batchv1.Job:
		return &obj.Spec.Template
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// collector collects the private values of an object.
type collector struct {
	// values are the values, one more than most at most, and parts their parts. partBytes is how much of the values was looked into.
	values, parts   []string
	most, partBytes int
	// public has the words that are no part of a value, see publicWords.
	public string
}

// addValues adds values without their parts.
func (c *collector) addValues(values ...string) {
	for _, value := range values {
		if len(value) >= minSecret && len(c.values) <= c.most {
			c.values = append(c.values, value)
		}
	}
}

// addWithParts adds values and their parts.
func (c *collector) addWithParts(values ...string) {
	c.addValues(values...)
	for _, value := range values {
		start := value[:min(len(value), maxPartBytes-c.partBytes)]
		c.partBytes += len(start)
		if len(start) < len(value) { // The last part may be cut.
			start = start[:strings.LastIndexAny(start, " \n")+1]
		}
		for _, part := range Parts(start) {
			if !strings.Contains(c.public, part) {
				c.parts = append(c.parts, part)
			}
		}
	}
}

func (c *collector) addAnnotations(annotations map[string]string) {
	for name, value := range annotations {
		if !strings.HasPrefix(name, appv1.GroupVersion.Group+"/") || name == appv1.AnnotationLastAppliedSpec {
			c.addValues(value)
		}
	}
}

// addPodSpec adds the attributes of CSI volumes, the options of FlexVolume, and the private values of the containers.
func (c *collector) addPodSpec(pod *corev1.PodSpec) {
	for i := range pod.Volumes {
		if csi := pod.Volumes[i].CSI; csi != nil {
			c.addWithParts(slices.Sorted(maps.Values(csi.VolumeAttributes))...)
		}
		if flex := pod.Volumes[i].FlexVolume; flex != nil {
			c.addWithParts(slices.Sorted(maps.Values(flex.Options))...)
		}
	}
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			c.addContainer(&list[i])
		}
	}
}

// addContainer adds the private values of a container.
func (c *collector) addContainer(of *corev1.Container) {
	c.addWithParts(of.Command...)
	c.addWithParts(of.Args...)
	for i := range of.Env {
		c.addWithParts(of.Env[i].Value)
	}
	for _, probe := range []*corev1.Probe{of.LivenessProbe, of.ReadinessProbe, of.StartupProbe} {
		if probe != nil {
			c.addHandler(probe.Exec, probe.HTTPGet)
		}
	}
	if of.Lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{of.Lifecycle.PostStart, of.Lifecycle.PreStop} {
			if hook != nil {
				c.addHandler(hook.Exec, hook.HTTPGet)
			}
		}
	}
}

func (c *collector) addHandler(exec *corev1.ExecAction, http *corev1.HTTPGetAction) {
	if exec != nil {
		c.addWithParts(exec.Command...)
	}
	if http != nil {
		if _, query, found := strings.Cut(http.Path, "?"); found {
			c.addWithParts(query)
		}
		for _, header := range http.HTTPHeaders {
			c.addWithParts(header.Value)
		}
	}
}

// publicWords returns the words that answers about objects have in order to name what is missing or wrong: the names of the objects, and those in their
// pod templates, each in a line.
func publicWords(objects []Object) string {
	public := map[string]bool{}
	for _, obj := range objects {
		public[obj.GetName()], public[obj.GetNamespace()] = true, true
		if template := templateOf(obj); template != nil {
			addNames(&template.Spec, public)
		}
		if set, ok := obj.(*appsv1.StatefulSet); ok {
			for i := range set.Spec.VolumeClaimTemplates {
				public[set.Spec.VolumeClaimTemplates[i].Name] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(public)), "\n")
}

// addNames adds the names in a pod spec: of containers, images, variables, volumes, classes, accounts, and of objects with their keys.
func addNames(pod *corev1.PodSpec, to map[string]bool) {
	add := func(names ...string) {
		for _, name := range names {
			to[name] = true
		}
	}
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
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			add(list[i].Name, list[i].Image)
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
