// Package specs makes random specs for fuzz tests.
//
// A spec is made as a user writes it: a tree of JSON values, with the spellings of a quantity, the empty lists and the
// numbers in place of strings that a typed client would never send. What decides is a Source: a random one, or the bytes
// of Go's fuzzer; no more are left at some point, and then the spec ends there too.
package specs

import (
	"encoding/binary"
	"fmt"
	"strings"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Source decides. The generator of math/rand/v2 is one.
type Source interface {
	// IntN returns a number from 0 to n-1.
	IntN(n int) int
}

// Bytes is a Source that reads its decisions from bytes, and says 0 once they are used up.
type Bytes struct{ rest []byte }

// FromBytes returns a Source that reads from data.
func FromBytes(data []byte) *Bytes { return &Bytes{rest: data} }

// IntN implements Source.
func (b *Bytes) IntN(n int) int {
	var number [4]byte
	width := 1
	if n > 256 {
		width = len(number)
	}
	b.rest = b.rest[copy(number[:width], b.rest):]
	return int(binary.LittleEndian.Uint32(number[:]) % uint32(n))
}

// Workload returns a spec that the schema of WorkloadSpec and api/v1/validation take. The API server may still refuse
// what it becomes.
func Workload(src Source) map[string]any { return (&generator{Source: src}).workload() }

// Accepted returns a spec like Workload, and the API server takes every object that it means.
func Accepted(src Source) map[string]any { return (&generator{Source: src, accepted: true}).workload() }

// Name returns the name of an App, with what makes it unique at its end: from one letter to the longest that an App with a canary can have.
func Name(src Source, unique int) string {
	suffix := fmt.Sprint(unique)
	room := 63 - len(appv1.CanarySuffix) - len(suffix)
	begin := pick(src, "a", "web", "a-1-b--c", strings.Repeat("x", room))
	return begin + suffix
}

type generator struct {
	Source
	accepted bool
	// onNodes is true if the Service has ports on the nodes; the cluster has each once.
	onNodes bool
	// volumesMade is true once there are volumes to mount.
	volumesMade bool
	// portsMade is how many ports other containers than the main one have.
	portsMade int
	// pathsMade is how many files volumes have.
	pathsMade int
	// mainNames are the names of the container ports that the main container states.
	mainNames []any
	// main are names of the main container, for patches.
	main []string
}

func (g *generator) workload() map[string]any {
	spec := map[string]any{"image": pick(g,
		"nginx", "nginx:1.16.1", "registry.example.com:5000/a/b_c.d-e/f:v1.2.3-rc.1", "a@sha256:"+strings.Repeat("0f", 32),
		"registry.example.com/"+strings.Repeat("long/", 180)+"image")}
	g.maybe(spec, "volumes", g.volumes) // First, as others refer to them.
	g.maybe(spec, "replicas", func() any { return pick(g, int64(0), 1, 2, 100, 1<<31-1) })
	g.maybe(spec, "imagePullPolicy", func() any { return pick(g, "Always", "IfNotPresent", "Never") })
	g.maybe(spec, "command", g.texts)
	g.maybe(spec, "args", g.texts)
	g.maybe(spec, "envs", g.envs)
	g.maybe(spec, "envFrom", g.envFrom)
	g.maybe(spec, "resources", g.resources)
	g.maybe(spec, "size", func() any { return g.size(spec) })
	g.maybe(spec, "service", g.service)
	g.maybe(spec, "containerPorts", g.mainPorts) // Before the ports, which lead to them.
	g.maybe(spec, "ports", g.ports)
	g.maybe(spec, "containerName", func() any { return pick(g, "main", "1-a", strings.Repeat("c", 63)) })
	g.rollout(spec)
	g.maybe(spec, "labels", g.labels)
	g.maybe(spec, "annotations", g.annotations)
	g.maybe(spec, "workloadLabels", g.labels)
	g.maybe(spec, "workloadAnnotations", g.annotations)
	g.pod(spec)
	return spec
}

// size returns a size that goes with the resources.
func (g *generator) size(spec map[string]any) any {
	if resources, _ := spec["resources"].(map[string]any); len(resources) > 0 {
		return "custom"
	}
	return pick(g, "small", "medium", "large")
}

// rollout sets the fields that say how pods are replaced.
func (g *generator) rollout(spec map[string]any) {
	g.maybe(spec, "strategy", func() any { return pick(g, "RollingUpdate", "Recreate") })
	if spec["strategy"] != "Recreate" {
		g.maybe(spec, "rollingUpdate", func() any { return pick[any](g, int64(1), "1", "30%", "100%", int64(7)) })
		if spec["rollingUpdate"] == nil {
			g.maybe(spec, "maxSurge", func() any { return pick[any](g, int64(1), "0%", "25%", "200%", int64(0)) })
			// Of 0 both, no pod could be replaced.
			g.maybe(spec, "maxUnavailable", func() any { return pick[any](g, int64(1), "30%", "100%", int64(7)) })
		}
	}
	g.maybe(spec, "minReadySeconds", func() any { return pick(g, int64(0), 1, 100) })
	g.maybe(spec, "revisionHistoryLimit", func() any { return pick(g, int64(0), 3) })
	g.maybe(spec, "progressDeadlineSeconds", func() any { return pick(g, int64(101), 601) })
}

func (g *generator) service() any {
	service := map[string]any{}
	g.maybe(service, "name", func() any { return fmt.Sprintf("svc-%d", g.IntN(1<<30)) })
	g.maybe(service, "type", func() any { return pick(g, "ClusterIP", "NodePort", "LoadBalancer") })
	g.onNodes = service["type"] == "NodePort" || service["type"] == "LoadBalancer"
	g.maybe(service, "labels", g.labels)
	g.maybe(service, "annotations", g.annotations)
	g.maybe(service, "externalTrafficPolicy", func() any { return pick(g, "Cluster", "Local") })
	g.maybe(service, "sessionAffinity", func() any { return pick(g, "ClientIP", "None") })
	if service["type"] == "LoadBalancer" {
		g.maybe(service, "loadBalancerClass", func() any { return "example.com/lb" })
		g.maybe(service, "loadBalancerSourceRanges", func() any { return pick(g, []any{}, []any{"192.0.2.0/24", "2001:db8::/32"}) })
	}
	if service["sessionAffinity"] == "ClientIP" {
		g.maybe(service, "sessionAffinityConfig", func() any {
			return pick(g, map[string]any{}, map[string]any{"clientIP": map[string]any{}},
				map[string]any{"clientIP": map[string]any{"timeoutSeconds": pick(g, int64(1), 86400)}})
		})
	}
	g.maybe(service, "publishNotReadyAddresses", func() any { return g.IntN(2) == 1 })
	g.maybe(service, "internalTrafficPolicy", func() any { return pick(g, "Cluster", "Local") })
	g.maybe(service, "trafficDistribution", func() any { return pick(g, "PreferClose", "PreferSameZone", "PreferSameNode") })
	g.maybe(service, "ipFamilies", func() any { return pick(g, []any{}, []any{"IPv4"}) })
	g.maybe(service, "ipFamilyPolicy", func() any { return pick(g, "SingleStack", "PreferDualStack") })
	if service["type"] == "ClusterIP" || service["type"] == nil {
		g.maybe(service, "clusterIP", func() any { return "None" })
	}
	return service
}

// maybe sets a field in two of three cases. A Source that is used up sets none.
func (g *generator) maybe(fields map[string]any, name string, value func() any) {
	if g.IntN(3) > 0 {
		fields[name] = value()
	}
}

// pick returns one of the values, the first from a Source that is used up.
func pick[T any](src Source, values ...T) T { return values[src.IntN(len(values))] }

// text returns what may stand in an argument or in a variable's value: anything.
func (g *generator) text() any {
	return pick(g, "", "a", "--flag=value", "$(DEMO)", "$$(DEMO)", "two words", "line\nline\n", "\t\"'\\/<>&", "界 – é",
		// What JSON allows as it is and YAML, as which the API server reads an apply request, does not.
		"\u0001\u007f\u0085\u2028\ufeff\uffff",
		"null", "true", "1e3", strings.Repeat("long ", 100), g.padding())
}

// padding is now and then so long that the record of the spec is compressed, or is only a hash.
func (g *generator) padding() string {
	if g.IntN(40) < 39 {
		return "short"
	}
	var b strings.Builder
	seed := uint64(g.IntN(1 << 30))
	for range pick(g, 6_000, 30_000) {
		// A generator of Knuth's (MMIX), as rand would have to be seeded from a Source anyway.
		seed = seed*6364136223846793005 + 1442695040888963407
		fmt.Fprintf(&b, "%08x", seed>>32)
	}
	return b.String()
}

func (g *generator) texts() any {
	list := make([]any, g.IntN(4))
	for i := range list {
		list[i] = g.text()
	}
	return list
}

func (g *generator) envs() any {
	list := []any{}
	for i := range g.IntN(8) {
		env := map[string]any{"name": pick(g, "A", "_", "a.b-c", "with space", "PATH_", "-./:;") + fmt.Sprint(i)}
		switch g.IntN(3) {
		case 0:
			env["value"] = g.text()
		case 1:
			env["valueFrom"] = g.valueFrom()
		}
		list = append(list, env)
	}
	return list
}

func (g *generator) valueFrom() any {
	sources := []func() (string, map[string]any){g.fieldRef, g.resourceFieldRef, g.configMapKeyRef, g.secretKeyRef}
	if g.volumesMade {
		sources = append(sources, g.fileKeyRef)
	}
	name, source := pick(g, sources...)()
	return map[string]any{name: source}
}

func (g *generator) fieldRef() (string, map[string]any) {
	ref := map[string]any{"fieldPath": pick(g, "metadata.name", "metadata.namespace", "metadata.uid",
		"metadata.labels['app.kubernetes.io/name']", "metadata.annotations['x']", "spec.nodeName",
		"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")}
	g.maybe(ref, "apiVersion", func() any { return "v1" })
	return "fieldRef", ref
}

func (g *generator) resourceFieldRef() (string, map[string]any) {
	ref := map[string]any{"resource": pick(g, "limits.cpu", "requests.cpu")}
	divisors := []any{"1", "1m", "0", "1000m", "0.001", int64(1), int64(0)}
	if g.IntN(2) == 1 {
		ref["resource"] = pick(g, "limits.memory", "requests.memory", "limits.ephemeral-storage", "requests.ephemeral-storage")
		divisors = []any{"1", "1k", "1Ki", "1M", "1Mi", "1000", "0", int64(1)}
	}
	g.maybe(ref, "divisor", func() any { return pick(g, divisors...) })
	g.maybe(ref, "containerName", func() any { return pick(g, "main", "other") })
	return "resourceFieldRef", ref
}

func (g *generator) configMapKeyRef() (string, map[string]any) { return "configMapKeyRef", g.keyRef() }

func (g *generator) secretKeyRef() (string, map[string]any) { return "secretKeyRef", g.keyRef() }

func (g *generator) fileKeyRef() (string, map[string]any) {
	ref := map[string]any{"volumeName": emptyVolume, "path": "a/b.env", "key": pick(g, "KEY", "a.b")}
	g.maybe(ref, "optional", func() any { return g.IntN(2) == 1 })
	return "fileKeyRef", ref
}

func (g *generator) keyRef() map[string]any {
	ref := map[string]any{"name": pick(g, "config", "a.b-c"), "key": pick(g, "key", ".hidden", "A_b.c-d")}
	g.maybe(ref, "optional", func() any { return g.IntN(2) == 1 })
	return ref
}

func (g *generator) envFrom() any {
	list := make([]any, g.IntN(4))
	for i := range list {
		ref := map[string]any{"name": pick(g, "config", "a.b-c", "config")}
		g.maybe(ref, "optional", func() any { return g.IntN(2) == 1 })
		entry := map[string]any{pick(g, "configMapRef", "secretRef"): ref}
		g.maybe(entry, "prefix", func() any { return pick(g, "", "P_", "p.q-") })
		list[i] = entry
	}
	return list
}

// quantities lists spellings from the smallest value to the largest, by resource.
var quantities = map[string][]any{
	"cpu":               {"0", int64(0), "1n", "0.0001", "100u", "1m", "0.1", "+100m", ".5", "500m", "1", int64(1), "1000m", "1.", "1e0", "1e3", "2k"},
	"memory":            {"0", "1m", "100m", "0.5", int64(1), "1e3", "1k", "1Ki", "0.1Gi", "123456789", "128974848000m", "123Mi", "129M", "1.5Gi", "1E"},
	"ephemeral-storage": {"0", "1m", "1", "1e6", "1Mi", "1.5Gi", "2G", "1E", "9223372036854775807"},
	"hugepages-2Mi":     {"2Mi", "4Mi", "1Gi"},
	"example.com/gpu":   {"0", int64(1), "1", "2", "1e1", "1k"},
}

func (g *generator) resources() any {
	limits, requests := map[string]any{}, map[string]any{}
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "example.com/gpu"} {
		g.quantity(name, limits, requests)
	}
	if limits["cpu"] != nil || limits["memory"] != nil {
		// Huge pages need one of the two next to them.
		g.quantity("hugepages-2Mi", limits, requests)
	}
	resources := map[string]any{}
	g.maybe(resources, "limits", func() any { return limits })
	if resources["limits"] == nil {
		// Without limits, what must equal its limit cannot be asked for.
		delete(requests, "hugepages-2Mi")
		delete(requests, "example.com/gpu")
	}
	g.maybe(resources, "requests", func() any { return requests })
	return resources
}

// quantity sets a limit, a request that is not above it, or both.
func (g *generator) quantity(name string, limits, requests map[string]any) {
	values := quantities[name]
	high := g.IntN(len(values))
	low := g.IntN(high + 1)
	if name == "example.com/gpu" || name == "hugepages-2Mi" {
		low = high // These cannot be overcommitted.
	}
	switch g.IntN(4) {
	case 1:
		limits[name] = values[high]
	case 2:
		limits[name], requests[name] = values[high], values[low]
	case 3:
		if low == high && name != "cpu" {
			limits[name] = values[high]
		}
		requests[name] = values[low]
	}
}
