package fields

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// serverDefaults are fields that the API server sets in an object that states none of them, by name, with the values that it
// sets; nil where the cluster decides. To keep them is nothing that an adoption needs to say.
var serverDefaults = map[string][]any{
	"progressDeadlineSeconds":       {int64(600)},
	"revisionHistoryLimit":          {int64(10)},
	"restartPolicy":                 {"Always"},
	"terminationGracePeriodSeconds": {int64(30)},
	"dnsPolicy":                     {"ClusterFirst"},
	"schedulerName":                 {"default-scheduler"},
	"terminationMessagePath":        {"/dev/termination-log"},
	"terminationMessagePolicy":      {"File"},
	"imagePullPolicy":               {"Always", "IfNotPresent"},
	"protocol":                      {"TCP"},
	"scheme":                        {"HTTP"},
	"timeoutSeconds":                {int64(1)},
	"periodSeconds":                 {int64(10)},
	"successThreshold":              {int64(1)},
	"failureThreshold":              {int64(3)},
	"defaultMode":                   {int64(420)},
	"podManagementPolicy":           {"OrderedReady"},
	"whenDeleted":                   {"Retain"},
	"whenScaled":                    {"Retain"},
	"maxSurge":                      {"25%"},
	"maxUnavailable":                {"25%"},
	"partition":                     {int64(0)},
	"type":                          {"RollingUpdate", "ClusterIP"},
	"sessionAffinity":               {"None"},
	"internalTrafficPolicy":         {"Cluster"},
	"externalTrafficPolicy":         {"Cluster"},
	"clusterIP":                     nil,
	"clusterIPs":                    nil,
	"ipFamilies":                    nil,
	"ipFamilyPolicy":                nil,
}

// IsDefault reports whether the value of a field is a value that the API server sets by default.
func IsDefault(fields map[string]any, path fieldpath.Path) bool {
	last := path[len(path)-1]
	found := ValueAt(fields, path)
	if parts, ok := found.(map[string]any); ok {
		// An empty struct is a default of pods and containers, and a choice elsewhere, as "emptyDir: {}" is.
		return len(parts) == 0 && (*last.FieldName == "securityContext" || *last.FieldName == "resources")
	}
	values, known := serverDefaults[*last.FieldName]
	return known && (values == nil || slices.Contains(values, found))
}
