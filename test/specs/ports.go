package specs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// mainPorts returns container ports of the main container that no port has the number of.
func (g *generator) mainPorts() any {
	list := []any{}
	for i := range g.IntN(3) {
		port := map[string]any{"containerPort": int64(30000 + i)}
		g.maybe(port, "name", func() any { return pick(g, "metrics", "1-m") + fmt.Sprint(i) })
		g.maybe(port, "protocol", func() any { return pick(g, "TCP", "UDP", "SCTP") })
		if port["name"] != nil {
			g.mainNames = append(g.mainNames, port["name"])
		}
		list = append(list, port)
	}
	return list
}

func (g *generator) ports() any {
	count := pick(g, 0, 1, 1, 2, 3, 5, 100)
	list := []any{}
	type key struct {
		number   int
		protocol string
	}
	taken := map[key]bool{}
	for i := range count {
		p := key{pick(g, 80, 443, 8080, 1, 65535, 1000+i), pick(g, "TCP", "UDP", "SCTP")}
		if taken[p] {
			continue
		}
		taken[p] = true
		list = append(list, g.port(i, p.number, p.protocol))
	}
	g.nameTargets(list)
	return list
}

// nameTargets has some of the ports lead to a container port by name: that of a port which leads there by number.
func (g *generator) nameTargets(list []any) {
	named := map[string]string{} // The name of a container port by its number and protocol.
	names := slices.Clone(g.mainNames)
	for _, item := range list {
		port, _ := item.(map[string]any)
		target, stated := port["targetPort"]
		if !stated {
			target = port["port"]
		}
		if _, byName := target.(string); byName {
			continue
		}
		protocol, _ := port["protocol"].(string)
		key := fmt.Sprint(target, "/", cmp.Or(protocol, "TCP"))
		if name, _ := port["name"].(string); named[key] == "" && len(validation.IsValidPortName(name)) == 0 {
			named[key] = name
			names = append(names, name)
		}
	}
	for _, item := range list {
		port, _ := item.(map[string]any)
		if _, byName := port["targetPort"].(string); !byName {
			continue
		}
		delete(port, "targetPort")
		if len(names) > 0 {
			port["targetPort"] = pick(g, names...)
		}
	}
}

func (g *generator) port(i, number int, protocol string) any {
	port := map[string]any{"port": int64(number)}
	if protocol != "TCP" || g.IntN(2) == 1 {
		port["protocol"] = protocol
	}
	// Among them are names that the builder gives by itself.
	g.maybe(port, "name", func() any {
		return pick(g, fmt.Sprintf("p%d", i), fmt.Sprintf("%d", i), fmt.Sprintf("tcp-%d", 1000+i), fmt.Sprintf("udp-80-%d", i),
			fmt.Sprintf("p%02d-%s", i, strings.Repeat("n", 59)))
	})
	g.maybe(port, "targetPort", func() any {
		return pick[any](g, int64(80), int64(8080), int64(1), int64(65535), int64(number), "by name", "by name", "by name", "by name")
	})
	if !g.accepted || !g.onNodes && g.IntN(3) == 0 {
		port["nodePort"] = int64(32000 + i)
	}
	g.maybe(port, "appProtocol", func() any { return pick(g, "http", "https", "kubernetes.io/h2c", "A_b.c-d") })
	return port
}
