package specs

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// pod sets the fields that say what else is in a pod, and where it runs.
func (g *generator) pod(spec map[string]any) {
	g.maybe(spec, "initContainers", func() any { return g.containers("init") })
	g.maybe(spec, "containers", func() any { return g.containers("side") })
	g.maybe(spec, "volumeMounts", g.mounts)
	g.maybe(spec, "lifecycle", g.lifecycle)
	g.maybe(spec, "probes", g.probes)
	g.maybe(spec, "securityContext", func() any { return g.typed(reflect.TypeFor[corev1.SecurityContext]()) })
	g.maybe(spec, "securityProfile", func() any { return "restricted" })
	g.maybe(spec, "podSecurityContext", func() any { return g.typed(reflect.TypeFor[corev1.PodSecurityContext]()) })
	g.maybe(spec, "serviceAccountName", func() any { return pick(g, "", "robot", "a.b-c") })
	g.maybe(spec, "automountServiceAccountToken", func() any { return g.IntN(2) == 1 })
	g.maybe(spec, "imagePullSecrets", func() any {
		return pick(g, []any{}, []any{map[string]any{"name": "b"}, map[string]any{"name": "a"}})
	})
	g.maybe(spec, "nodeSelector", g.labels)
	g.maybe(spec, "tolerations", g.tolerations)
	g.maybe(spec, "affinity", func() any { return g.typed(reflect.TypeFor[corev1.Affinity]()) })
	g.maybe(spec, "topologySpreadConstraints", g.spread)
	g.maybe(spec, "terminationGracePeriodSeconds", func() any { return pick(g, int64(0), 1, 3600) })
	g.maybe(spec, "priorityClassName", func() any { return pick(g, "", "gold") })
	g.maybe(spec, "runtimeClassName", func() any { return pick(g, "gvisor", "a.b-c") })
	g.maybe(spec, "dnsConfig", func() any { return g.typed(reflect.TypeFor[corev1.PodDNSConfig]()) })
	g.maybe(spec, "dnsPolicy", func() any { return g.dnsPolicy(spec) })
	g.maybe(spec, "hostAliases", func() any {
		alias := func(ip string) any { return map[string]any{"ip": ip, "hostnames": pick(g, []any{}, []any{"a", "b.c"})} }
		return []any{alias("127.0.0.1"), alias("2001:db8::1")}[g.IntN(3):]
	})
	g.maybe(spec, "podLabels", g.labels)
	g.maybe(spec, "podAnnotations", g.annotations)
	g.maybe(spec, "podTemplatePatch", func() any { return g.patch(spec) })
}

func (g *generator) labels() any {
	return pick(g, map[string]any{}, map[string]any{"tier": "web"}, map[string]any{"example.com/a": "", "team": "b_c.d-E"},
		map[string]any{"app.kubernetes.io/version": "1.0", "app.kubernetes.io/part-of": "shop"},
		map[string]any{"app.kubernetes.io/name": "cart", "app.kubernetes.io/component": "api"})
}

func (g *generator) annotations() any {
	return pick(g, map[string]any{}, map[string]any{"a": "any text: {}"}, map[string]any{"example.com/A_b.c": "", "b": "\n"})
}

func (g *generator) labelSelector() any {
	selector := map[string]any{}
	g.maybe(selector, "matchLabels", g.labels)
	g.maybe(selector, "matchExpressions", func() any {
		return pick(g, []any{}, []any{map[string]any{"key": "a", "operator": "Exists"}},
			[]any{map[string]any{"key": "b", "operator": "NotIn", "values": []any{"1", ""}}, map[string]any{"key": "a", "operator": "DoesNotExist", "values": []any{}}})
	})
	return selector
}

// dnsPolicy returns a policy that goes with the name servers.
func (g *generator) dnsPolicy(spec map[string]any) any {
	config, _ := spec["dnsConfig"].(map[string]any)
	if servers, _ := config["nameservers"].([]any); len(servers) == 0 {
		return pick(g, "ClusterFirst", "ClusterFirstWithHostNet", "Default")
	}
	return pick(g, "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
}

// The volumes that others refer to are always called by these names.
const (
	emptyVolume = "empty"
	blockVolume = "block"
)

// volumes returns a volume for what is mounted, one for a device, and others of any kind.
func (g *generator) volumes() any {
	empty := map[string]any{"name": emptyVolume, "emptyDir": g.typed(reflect.TypeFor[corev1.EmptyDirVolumeSource]())}
	block := map[string]any{"name": blockVolume, "persistentVolumeClaim": map[string]any{"claimName": "disk"}}
	list := []any{empty, block}
	for i := range g.IntN(5) {
		volume := g.made(reflect.TypeFor[corev1.VolumeSource]())
		if g.IntN(4) == 3 { // It has kinds of its own.
			volume = map[string]any{"projected": g.made(reflect.TypeFor[corev1.ProjectedVolumeSource]())}
		}
		volume["name"] = fmt.Sprintf("v%d", i)
		list = append(list, volume)
	}
	g.volumesMade = true
	return list
}

// mounts returns where a container sees the volumes that there are.
func (g *generator) mounts() any {
	list := []any{}
	if !g.volumesMade {
		return list
	}
	for i := range g.IntN(4) {
		mount := g.made(reflect.TypeFor[corev1.VolumeMount]())
		mount["name"], mount["mountPath"] = emptyVolume, fmt.Sprintf("/mnt/%d", i)
		list = append(list, mount)
	}
	return list
}

// containers returns sidecars, or containers that run before the main one.
func (g *generator) containers(prefix string) any {
	list := []any{}
	for i := range g.IntN(3) {
		c := g.made(reflect.TypeFor[corev1.Container]())
		c["name"], c["image"] = fmt.Sprintf("%s-%d", prefix, i), "busybox"
		sidecar := prefix == "side"
		if prefix == "init" {
			sidecar = c["restartPolicy"] == "Always"
		}
		if !sidecar {
			for _, name := range []string{"lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "resizePolicy"} {
				delete(c, name)
			}
		}
		list = append(list, c)
	}
	return list
}

// container replaces those fields of a container that are made in a way of their own.
func (g *generator) container(c map[string]any) {
	for _, field := range []struct {
		name string
		make func() any
	}{
		{"command", g.texts}, {"args", g.texts}, {"env", g.envs}, {"envFrom", g.envFrom},
		{"resources", g.resources}, {"volumeMounts", g.mounts}, {"ports", g.containerPorts},
		{"volumeDevices", func() any {
			if !g.volumesMade {
				return []any{}
			}
			return []any{map[string]any{"name": blockVolume, "devicePath": "/dev/block"}}
		}},
		{"imagePullPolicy", func() any { return pick(g, "Always", "Never") }},
		{"terminationMessagePolicy", func() any { return pick(g, "File", "FallbackToLogsOnError") }},
		{"restartPolicy", func() any { return pick(g, "Always", "OnFailure", "Never") }},
		{"resizePolicy", func() any { return []any{g.typed(reflect.TypeFor[corev1.ContainerResizePolicy]())} }},
		{"lifecycle", g.lifecycle},
		{"livenessProbe", func() any { return g.probe(true) }},
		{"startupProbe", func() any { return g.probe(true) }},
		{"readinessProbe", func() any { return g.probe(false) }},
	} {
		if c[field.name] != nil {
			c[field.name] = field.make()
		}
	}
	needs(c, "restartPolicyRules", "restartPolicy")
}

func (g *generator) containerPorts() any {
	g.portsMade++
	port := map[string]any{"containerPort": int64(20000 + g.portsMade)}
	g.maybe(port, "name", func() any { return fmt.Sprintf("side-%d", g.portsMade) })
	g.maybe(port, "protocol", func() any { return pick(g, "TCP", "UDP", "SCTP") })
	g.maybe(port, "hostPort", func() any { return int64(20000 + g.portsMade) })
	g.maybe(port, "hostIP", func() any { return pick(g, "", "127.0.0.1") })
	return []any{port}
}

func (g *generator) lifecycle() any {
	lifecycle := g.made(reflect.TypeFor[corev1.Lifecycle]())
	delete(lifecycle, "stopSignal") // It goes with the operating system in the pod's spec alone.
	return lifecycle
}

func (g *generator) probes() any {
	if g.IntN(4) == 3 {
		return map[string]any{"disabled": true}
	}
	probes := map[string]any{}
	g.maybe(probes, "disabled", func() any { return false })
	g.maybe(probes, "liveness", func() any { return g.probe(true) })
	g.maybe(probes, "startup", func() any { return g.probe(true) })
	g.maybe(probes, "readiness", func() any { return g.probe(false) })
	return probes
}

// probe returns a probe that restarts a container, or one that only takes it out of the Service.
func (g *generator) probe(restarts bool) any {
	probe := g.made(reflect.TypeFor[corev1.Probe]())
	if !restarts {
		delete(probe, "terminationGracePeriodSeconds")
		g.maybe(probe, "successThreshold", func() any { return pick(g, int64(1), 3) })
	}
	return probe
}

func (g *generator) tolerations() any {
	list := []any{}
	for range g.IntN(3) {
		list = append(list, pick(g, map[string]any{}, map[string]any{"operator": "Exists"},
			map[string]any{"key": "a", "operator": "Exists", "effect": "NoSchedule"},
			map[string]any{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": int64(60)}))
	}
	for i := range list {
		if toleration := list[i].(map[string]any); len(toleration) == 0 {
			toleration["operator"] = "Exists"
		}
	}
	return list
}

func (g *generator) spread() any {
	list := []any{}
	for _, key := range []string{"kubernetes.io/hostname", "zone"}[g.IntN(3)%2:] {
		constraint := g.made(reflect.TypeFor[corev1.TopologySpreadConstraint]())
		constraint["topologyKey"] = key
		constraint["whenUnsatisfiable"] = "DoNotSchedule"
		if constraint["minDomains"] == nil {
			constraint["whenUnsatisfiable"] = pick(g, "DoNotSchedule", "ScheduleAnyway")
		}
		list = append(list, constraint)
	}
	return list
}

// patch returns a patch of the pod template.
func (g *generator) patch(spec map[string]any) any {
	main := func(fields map[string]any) any { return map[string]any{"spec": fields} }
	patches := []any{
		map[string]any{},
		main(map[string]any{"hostNetwork": true, "dnsPolicy": "Default"}),
		main(map[string]any{"enableServiceLinks": false, "hostPID": true}),
		main(map[string]any{"shareProcessNamespace": false, "schedulerName": "mine", "setHostnameAsFQDN": true}),
		main(map[string]any{"topologySpreadConstraints": nil, "nodeSelector": nil}),
		main(map[string]any{"readinessGates": []any{map[string]any{"conditionType": "example.com/ready"}}, "hostname": "h", "subdomain": "s"}),
		map[string]any{"metadata": map[string]any{"labels": map[string]any{"patched": "yes"}, "annotations": map[string]any{"patched": ""}}},
	}
	if containers, _ := spec["containers"].([]any); len(containers) > 0 {
		name := containers[0].(map[string]any)["name"]
		patches = append(patches, main(map[string]any{"containers": []any{map[string]any{"name": name, "$patch": "delete"}}}),
			main(map[string]any{"containers": []any{map[string]any{"name": name, "image": "patched"}}}))
	}
	return pick(g, patches...)
}
