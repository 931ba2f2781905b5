package specs

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Served returns a spec like Accepted, with some of what can stand around the pods of an App or a ModelBox.
func Served(src Source) map[string]any {
	spec := Accepted(src)
	Serve(src, spec)
	return spec
}

// Serve adds to a spec some of what can stand around its pods, as the rules and the API server take it. Blocks to leave out are
// named by their fields.
func Serve(src Source, spec map[string]any, without ...string) {
	g := &generator{Source: src, accepted: true}
	for _, block := range []struct {
		name string
		can  bool
		make func() any
	}{
		{"serviceAccount", spec["serviceAccountName"] == nil || spec["serviceAccountName"] == "", g.serviceAccount},
		{"ingress", len(tcpPorts(spec)) > 0, func() any { return g.ingress(spec) }},
		{"httpRoute", len(tcpPorts(spec)) > 0, func() any { return g.httpRoute(spec) }},
		{"autoscaling", true, func() any { return g.autoscaling(spec) }},
		{"disruptionBudget", true, g.disruptionBudget},
		{"networkPolicy", true, g.networkPolicy},
		{"podMonitor", len(scraped(spec)) > 0, func() any { return g.podMonitor(spec) }},
		{"configRollout", true, func() any { return pick(g, "Never", "OnChange") }},
		{"rollback", true, func() any { return g.rollback(spec) }},
		{"canary", spec["strategy"] != "Recreate", g.canary},
		{"beforeRollout", true, g.beforeRollout},
		{"withoutDefaults", true, g.withoutDefaults},
	} {
		if block.can && !slices.Contains(without, block.name) && g.IntN(2) == 1 {
			spec[block.name] = block.make()
		}
	}
}

// withoutDefaults returns names of fields that the AppDefaults may have.
func (g *generator) withoutDefaults() any {
	fields := appv1.OptOuts()
	names := []any{}
	for range g.IntN(4) {
		if name := pick(g, fields...); !slices.Contains(names, any(name)) {
			names = append(names, name)
		}
	}
	return names
}

// tcpPorts returns those of a spec's ports that the Service offers by TCP.
func tcpPorts(spec map[string]any) []map[string]any {
	var found []map[string]any
	ports, _ := spec["ports"].([]any)
	for _, item := range ports {
		if port, ok := item.(map[string]any); ok && cmp.Or(port["protocol"], any("TCP")) == "TCP" {
			found = append(found, port)
		}
	}
	return found
}

// scraped returns the TCP ports of the main container, by number and by name.
func scraped(spec map[string]any) []any {
	var found []any
	containerPorts, _ := spec["containerPorts"].([]any)
	for _, item := range containerPorts {
		port, ok := item.(map[string]any)
		if !ok || cmp.Or(port["protocol"], any("TCP")) != "TCP" {
			continue
		}
		if found = append(found, port["containerPort"]); port["name"] != nil {
			found = append(found, port["name"])
		}
	}
	for _, port := range tcpPorts(spec) {
		if number, ok := cmp.Or(port["targetPort"], port["port"]).(int64); ok {
			found = append(found, number)
		}
	}
	return found
}

func (g *generator) serviceAccount() any {
	account := map[string]any{}
	g.maybe(account, "annotations", g.annotations)
	g.maybe(account, "automountToken", func() any { return g.IntN(2) == 1 })
	return account
}

// servicePort returns the number or the name of a port that the Service offers by TCP.
func (g *generator) servicePort(spec map[string]any) any {
	port := pick(g, tcpPorts(spec)...)
	if name, _ := port["name"].(string); len(validation.IsDNS1123Label(name)) == 0 && g.IntN(2) == 1 {
		return name
	}
	return port["port"]
}

// paths returns paths of a host; among them are some that mean the same, and some that are as long as can be.
func (g *generator) paths() any {
	all := []any{"/", "/api", "/api/", "/a.b/c-d_e~f", "/%20?a=b", "/é界", "/" + fmt.Sprint(g.IntN(1000))}
	from := g.IntN(len(all))
	return slices.Clone(all[from:min(len(all), from+1+g.IntN(3))])
}

func (g *generator) host(i int) string {
	return pick(g, fmt.Sprintf("shop-%d.example.com", i), fmt.Sprintf("*.a%d.example.com", i), fmt.Sprintf("h%d", i), fmt.Sprintf("1-%d.2.3.4", i))
}

func (g *generator) ingress(spec map[string]any) any {
	var rules []any
	for i := range 1 + g.IntN(3) {
		rule := map[string]any{"host": g.host(i)}
		g.maybe(rule, "paths", g.paths)
		rules = append(rules, rule)
	}
	made := map[string]any{"rules": rules}
	g.maybe(made, "className", func() any { return pick(g, "nginx", "a.b-c") })
	g.maybe(made, "pathType", func() any { return pick(g, "Prefix", "Exact", "ImplementationSpecific") })
	g.maybe(made, "tls", func() any { return map[string]any{"secretName": pick(g, "tls", "a.b-c")} })
	g.maybe(made, "annotations", g.annotations)
	if class := made["className"]; class != nil && g.IntN(4) == 0 {
		made["annotations"] = map[string]any{"kubernetes.io/ingress.class": class}
	}
	g.maybe(made, "port", func() any { return g.servicePort(spec) })
	return made
}

func (g *generator) httpRoute(spec map[string]any) any {
	var parents []any
	for i := range 1 + g.IntN(3) {
		parent := map[string]any{"name": fmt.Sprintf("%s-%d", pick(g, "public", "a.b"), i)}
		g.maybe(parent, "kind", func() any { return pick(g, "Gateway", "ListenerSet") })
		g.maybe(parent, "namespace", func() any { return pick(g, "gateways", "default") })
		g.maybe(parent, "sectionName", func() any { return pick(g, "https", "a.b-c") })
		g.maybe(parent, "port", func() any { return pick(g, int64(443), 65535) })
		parents = append(parents, parent)
	}
	made := map[string]any{"parentRefs": parents}
	g.maybe(made, "hostnames", func() any { return []any{g.host(0), g.host(1), g.host(2)}[g.IntN(4):] })
	g.maybe(made, "paths", g.routePaths)
	g.maybe(made, "pathType", func() any { return pick(g, "PathPrefix", "Exact") })
	g.maybe(made, "port", func() any { return g.servicePort(spec) })
	g.maybe(made, "annotations", g.annotations)
	return made
}

// routePaths returns paths that an HTTPRoute can have: each character is one of those that a URL has as they are, or escaped.
func (g *generator) routePaths() any {
	all := []any{"/", "/api", "/api/", "/a.b/c-d_e~f", "/%20", "/" + fmt.Sprint(g.IntN(1000))}
	from := g.IntN(len(all))
	return slices.Clone(all[from:min(len(all), from+1+g.IntN(3))])
}

func (g *generator) autoscaling(spec map[string]any) any {
	made := map[string]any{"maxReplicas": pick(g, int64(3), 10, 1000)}
	g.maybe(made, "minReplicas", func() any { return pick(g, int64(1), 2, 3) })
	cpu, memory := countsFrom(spec, "cpu"), countsFrom(spec, "memory")
	percent := func() any { return pick(g, int64(1), 80, 1000) }
	if memory && (!cpu || g.IntN(2) == 1) {
		made["targetMemoryUtilizationPercentage"] = percent()
	}
	if cpu {
		g.maybe(made, "targetCPUUtilizationPercentage", percent)
	}
	if !cpu && !memory || g.IntN(3) == 2 {
		delete(made, "targetCPUUtilizationPercentage")
		delete(made, "targetMemoryUtilizationPercentage")
		metrics := []any{g.metric()}
		for range g.IntN(3) {
			metrics = append(metrics, g.metric())
		}
		made["metrics"] = metrics
	} else if made["metrics"] = []any{}; g.IntN(2) == 1 {
		delete(made, "metrics")
	}
	g.maybe(made, "behavior", g.behavior)
	return made
}

// countsFrom reports whether a spec states from what an autoscaler counts percentages of a resource.
func countsFrom(spec map[string]any, resource string) bool {
	if size, _ := spec["size"].(string); slices.Contains([]string{"small", "medium", "large"}, size) {
		return true
	}
	resources, _ := spec["resources"].(map[string]any)
	for _, of := range []string{"requests", "limits"} {
		if list, _ := resources[of].(map[string]any); list[resource] != nil {
			return true
		}
	}
	return false
}

// metric returns what an autoscaler scales by.
func (g *generator) metric() any {
	quantity := func() any { return pick[any](g, "100m", "0.5", int64(1), "1e3", "1.5Gi") }
	utilization := func() any { return map[string]any{"type": "Utilization", "averageUtilization": pick(g, int64(1), 80)} }
	average := func() any { return map[string]any{"type": "AverageValue", "averageValue": quantity()} }
	value := func() any { return map[string]any{"type": "Value", "value": quantity()} }
	either := func(a, b func() any) any { return pick(g, a, b)() }
	named := func() any {
		metric := map[string]any{"name": pick(g, "requests", "a_b.c")}
		g.maybe(metric, "selector", g.labelSelector)
		return metric
	}
	switch g.IntN(5) {
	case 0:
		return map[string]any{"type": "Resource", "resource": map[string]any{"name": pick(g, "cpu", "memory"), "target": either(utilization, average)}}
	case 1:
		return map[string]any{"type": "ContainerResource", "containerResource": map[string]any{
			"name": pick(g, "cpu", "memory"), "container": "main", "target": either(utilization, average),
		}}
	case 2:
		return map[string]any{"type": "Pods", "pods": map[string]any{"metric": named(), "target": average()}}
	case 3:
		object := map[string]any{"kind": "Ingress", "name": "main"}
		g.maybe(object, "apiVersion", func() any { return "networking.k8s.io/v1" })
		return map[string]any{"type": "Object", "object": map[string]any{"describedObject": object, "metric": named(), "target": either(value, average)}}
	default:
		return map[string]any{"type": "External", "external": map[string]any{"metric": named(), "target": either(value, average)}}
	}
}

// behavior returns how fast an autoscaler scales.
func (g *generator) behavior() any {
	made := map[string]any{}
	for _, direction := range []string{"scaleUp", "scaleDown"} {
		g.maybe(made, direction, func() any {
			rules := map[string]any{}
			g.maybe(rules, "stabilizationWindowSeconds", func() any { return pick(g, int64(0), 60, 3600) })
			g.maybe(rules, "selectPolicy", func() any { return pick(g, "Max", "Min", "Disabled") })
			g.maybe(rules, "tolerance", func() any { return pick[any](g, "0.1", int64(0), "50m") })
			g.maybe(rules, "policies", func() any {
				policy := func() any {
					return map[string]any{"type": pick(g, "Pods", "Percent"), "value": pick(g, int64(1), 100), "periodSeconds": pick(g, int64(1), 1800)}
				}
				return []any{policy(), policy()}[g.IntN(2):]
			})
			return rules
		})
	}
	return made
}

func (g *generator) disruptionBudget() any {
	made := map[string]any{}
	switch g.IntN(3) {
	case 1:
		made["minAvailable"] = pick[any](g, int64(1), "50%", "0%", int64(0), "99%")
	case 2:
		made["maxUnavailable"] = pick[any](g, int64(1), "1%", "100%", int64(7))
	}
	g.maybe(made, "unhealthyPodEvictionPolicy", func() any { return pick(g, "AlwaysAllow", "IfHealthyBudget") })
	return made
}

func (g *generator) networkPolicy() any {
	made := map[string]any{}
	rules := func(peers string) func() any {
		return func() any {
			list := []any{}
			for range g.IntN(3) {
				rule := map[string]any{}
				g.maybe(rule, peers, func() any { return g.several(g.peer) })
				g.maybe(rule, "ports", func() any { return g.several(g.policyPort) })
				list = append(list, rule)
			}
			return list
		}
	}
	g.maybe(made, "egress", rules("to"))
	if made["egress"] == nil || g.IntN(2) == 1 {
		made["ingress"] = rules("from")()
	}
	return made
}

// several returns up to two items.
func (g *generator) several(item func() any) any {
	list := []any{}
	for range g.IntN(3) {
		list = append(list, item())
	}
	return list
}

// peer returns who a policy lets in or out.
func (g *generator) peer() any {
	if g.IntN(3) == 2 {
		return map[string]any{"ipBlock": pick(g, map[string]any{"cidr": "10.0.0.0/8"}, map[string]any{"cidr": "0.0.0.0/0", "except": []any{}},
			map[string]any{"cidr": "2001:db8::/32", "except": []any{"2001:db8:1::/48", "2001:db8:2::/48"}})}
	}
	made := map[string]any{}
	g.maybe(made, "podSelector", g.labelSelector)
	if made["podSelector"] == nil || g.IntN(2) == 1 {
		made["namespaceSelector"] = g.labelSelector()
	}
	return made
}

// policyPort returns a port that a policy allows.
func (g *generator) policyPort() any {
	port := map[string]any{}
	g.maybe(port, "protocol", func() any { return pick(g, "TCP", "UDP", "SCTP") })
	g.maybe(port, "port", func() any { return pick[any](g, int64(53), int64(1), "http", int64(65535)) })
	if number, ok := port["port"].(int64); ok {
		g.maybe(port, "endPort", func() any { return pick(g, number, 65535) })
	}
	return port
}

func (g *generator) podMonitor(spec map[string]any) any {
	made := map[string]any{}
	g.maybe(made, "port", func() any { return pick(g, scraped(spec)...) })
	g.maybe(made, "path", func() any { return pick(g, "/", "/metrics/é?a=b") })
	g.maybe(made, "interval", func() any { return pick(g, "30s", "1m30s", "1y2w3d") })
	g.maybe(made, "labels", func() any {
		labels, _ := g.labels().(map[string]any)
		for _, key := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"} {
			delete(labels, key) // The operator finds the object by them.
		}
		return labels
	})
	return made
}

// canary returns a canary that is promoted by hand, or by itself after a while.
func (g *generator) canary() any {
	canary := map[string]any{}
	g.maybe(canary, "pods", func() any { return pick[any](g, int64(1), int64(7), "1%", "20%", "100%") })
	if g.IntN(2) == 1 {
		canary["promote"], canary["after"] = "Auto", pick(g, "1s", "90s", "10m", "1h30m", "168h")
	}
	return canary
}

// beforeRollout returns a command before the rollouts.
func (g *generator) beforeRollout() any {
	command := map[string]any{"command": pick(g, []any{"/app/migrate"}, []any{"sh", "-c", "é\n"})}
	g.maybe(command, "args", g.texts)
	g.maybe(command, "envs", g.envs)
	g.maybe(command, "deadlineSeconds", func() any { return pick(g, int64(1), int64(600), int64(86400)) })
	g.maybe(command, "retries", func() any { return pick(g, int64(0), int64(10)) })
	return command
}

// rollback returns whether a rollout is undone: only where old ReplicaSets are kept.
func (g *generator) rollback(spec map[string]any) any {
	if spec["revisionHistoryLimit"] == int64(0) {
		return "Never"
	}
	return pick(g, "OnStall", "Never")
}
