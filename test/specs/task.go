package specs

// servingFields are the fields of a workload that a Task has not, and those that only a pod that serves has.
var servingFields = []string{
	"replicas", "ports", "containerPorts", "service", "strategy", "rollingUpdate", "maxSurge", "maxUnavailable", "minReadySeconds",
	"revisionHistoryLimit", "progressDeadlineSeconds", "probes", "lifecycle", "topologySpreadConstraints", "workloadLabels", "workloadAnnotations",
	"containers",
}

// Task returns the spec of a Task without an App, whose CronJob the API server takes.
func Task(src Source) map[string]any {
	g := &generator{Source: src, accepted: true}
	spec := g.workload()
	for _, field := range servingFields {
		delete(spec, field)
	}
	// The containers and ports that the patch could be about are gone.
	delete(spec, "podTemplatePatch")
	g.maybe(spec, "podTemplatePatch", func() any {
		return map[string]any{"spec": pick(g, map[string]any{}, map[string]any{"hostname": "a"}, map[string]any{"shareProcessNamespace": true})}
	})
	const interval = "@every 1h30m"
	spec["schedule"] = pick(g, "0 5 * * *", "*/5 0-6 1,15 JAN-MAR MON", "@daily", interval, "0 0 30 2 *", "? * ? * SUN")
	g.maybe(spec, "timeZone", func() any { return pick(g, "Etc/UTC", "Asia/Shanghai", "America/Argentina/Buenos_Aires") })
	g.maybe(spec, "concurrency", func() any { return pick(g, "Forbid", "Allow", "Replace") })
	g.maybe(spec, "deadlineSeconds", func() any { return pick(g, int64(1), 604800) })
	g.maybe(spec, "retries", func() any { return pick(g, int64(0), 10) })
	g.maybe(spec, "startingDeadlineSeconds", func() any {
		if spec["schedule"] == interval {
			return pick(g, int64(5401), 604800)
		}
		return pick(g, int64(10), 604800)
	})
	g.maybe(spec, "suspended", func() any { return g.IntN(2) == 1 })
	g.maybe(spec, "keep", func() any {
		keep := map[string]any{}
		g.maybe(keep, "succeeded", func() any { return pick(g, int64(0), 100) })
		g.maybe(keep, "failed", func() any { return pick(g, int64(1), 100) })
		return keep
	})
	return spec
}
