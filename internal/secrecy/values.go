package secrecy

import (
	"index/suffixarray"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// maxPartBytes is how much of the values of one object, in bytes, has Parts, as it takes the more time to look for them the more there are.
const maxPartBytes = 64 << 10

// The limits of the public words. A longer name, or one beyond the limit of all, is none: parts of values that are like it are hidden, too.
const (
	maxPublicName  = 1 << 10
	maxPublicBytes = 16 << 10
)

// limits is how many private values are looked for, how many bytes of them, of each no more than finds it, and how many parts, as the cost of a redaction
// grows with each.
type limits struct{ values, bytes, parts int }

var (
	// ownLimits are the limits for objects of the operator. maxPartBytes limits the parts.
	ownLimits = limits{values: 10_000, bytes: 1 << 20, parts: math.MaxInt}
	// foreignLimits are the limits for objects of others, which the cache reads one by one.
	foreignLimits = limits{values: 500, bytes: 64 << 10, parts: 5000}
	// podLimits are the limits for pods, also of resources. A kubelet has long words about few pods only.
	podLimits = limits{values: 1000, bytes: 128 << 10, parts: 8000}
)

// limitsOf returns the limits for an object of others, or for a pod.
func limitsOf(object Object) limits {
	if _, ok := object.(*corev1.Pod); ok {
		return podLimits
	}
	return foreignLimits
}

// privateValues returns the values of the annotations of objects, and of the variables, arguments, commands, headers, queries of probes, attributes of
// CSI volumes and annotations of their pods. All but the annotations, which record whole specs, have Parts, too. The operator's own annotations are no
// secrets but for the record of a spec. few is false if there are more than the limits allow.
func privateValues(most limits, objects ...Object) (all []string, few bool) {
	objects = slices.DeleteFunc(slices.Clone(objects), isNil)
	index := sync.OnceValue(func() *suffixarray.Index { return indexPublic(objects) })
	found := &collector{most: most, public: index, values: map[string]bool{}, parts: map[string]bool{}}
	for _, obj := range objects {
		found.partBytes = 0
		found.addAnnotations(obj.GetAnnotations())
		if cron, ok := obj.(*batchv1.CronJob); ok {
			found.addAnnotations(cron.Spec.JobTemplate.Annotations)
		}
		if template := templateOf(obj); template != nil {
			found.addAnnotations(template.Annotations)
			found.addPodSpec(&template.Spec)
		}
	}
	return found.all, !found.full
}

// templateOf returns the pod template of an object, that of a pod with its spec, nil if it has none.
func templateOf(obj Object) *corev1.PodTemplateSpec {
	switch obj := obj.(type) {
	case *corev1.Pod:
		return &corev1.PodTemplateSpec{Spec: obj.Spec}
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

// collector collects the private values of objects, without repetitions, until it is full.
type collector struct {
	all           []string
	values, parts map[string]bool
	most          limits
	// bytes is the length of the values as far as they are looked for, partBytes how much of the values of an object was looked into.
	bytes, partBytes int
	full             bool
	// public returns an index of the words that are no part of a value, see publicNames. Only parts need it.
	public func() *suffixarray.Index
}

// addValues adds values without their parts.
func (c *collector) addValues(values ...string) {
	for _, value := range values {
		if c.full {
			return
		}
		if len(value) < minSecret || c.values[value] {
			continue
		}
		c.values[value] = true
		c.bytes += min(len(value), maxPrefix)
		c.all = append(c.all, value)
		c.full = len(c.values) > c.most.values || c.bytes > c.most.bytes
	}
}

// addWithParts adds values and their parts.
func (c *collector) addWithParts(values ...string) {
	c.addValues(values...)
	for _, value := range values {
		if c.full || c.partBytes >= maxPartBytes {
			return
		}
		start := value[:min(len(value), maxPartBytes-c.partBytes)]
		c.partBytes += len(start)
		if len(start) < len(value) { // The last part may be cut.
			start = start[:strings.LastIndexAny(start, " \n")+1]
		}
		c.addParts(Parts(start))
	}
}

// addParts adds parts of a value but for public words.
func (c *collector) addParts(parts []string) {
	for _, part := range parts {
		if c.full {
			return
		}
		if c.parts[part] {
			continue
		}
		c.parts[part] = true
		c.full = len(c.parts) > c.most.parts
		if len(c.public().Lookup([]byte(part), 1)) == 0 {
			c.all = append(c.all, part)
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
