package health

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestHTTPRoute judges routes with two parents by what is said of each.
func TestHTTPRoute(t *testing.T) {
	refs := []gatewayv1.ParentReference{
		{Name: "a"}, {Name: "b", Namespace: ptr.To[gatewayv1.Namespace]("gateways"), SectionName: ptr.To[gatewayv1.SectionName]("https")},
	}
	// As a controller states it: with the defaults.
	stated := refs[0]
	stated.Group, stated.Kind, stated.Namespace = ptr.To[gatewayv1.Group](gatewayv1.GroupName), ptr.To[gatewayv1.Kind]("Gateway"), ptr.To[gatewayv1.Namespace]("default")
	says := func(ref gatewayv1.ParentReference, accepted, resolved string, generation int64) gatewayv1.RouteParentStatus {
		status := gatewayv1.RouteParentStatus{ParentRef: ref}
		for kind, value := range map[string]string{"Accepted": accepted, "ResolvedRefs": resolved} {
			if value != "" {
				status.Conditions = append(status.Conditions, metav1.Condition{
					Type: kind, Status: metav1.ConditionStatus(value), Reason: kind + "Reason", Message: "words", ObservedGeneration: generation,
				})
			}
		}
		return status
	}
	for name, c := range map[string]struct {
		parents []gatewayv1.RouteParentStatus
		want    string
		words   string
	}{
		"nobody":                   {nil, "Unknown/NoController", "HTTPRoute web: no controller has answered for Gateway a yet"},
		"both accept":              {[]gatewayv1.RouteParentStatus{says(stated, "True", "True", 3), says(refs[1], "True", "True", 3)}, "True/Accepted", "HTTPRoute web is accepted"},
		"one is silent":            {[]gatewayv1.RouteParentStatus{says(stated, "True", "True", 3)}, "Unknown/NoController", "Gateway gateways/b, listener https yet"},
		"one refuses":              {[]gatewayv1.RouteParentStatus{says(refs[1], "False", "True", 3)}, "False/NotAccepted", "not accepted by Gateway gateways/b, listener https: AcceptedReason: words"},
		"no backend":               {[]gatewayv1.RouteParentStatus{says(stated, "True", "False", 3)}, "False/NotAccepted", "ResolvedRefsReason: words"},
		"of an earlier version":    {[]gatewayv1.RouteParentStatus{says(stated, "False", "True", 2), says(refs[1], "True", "True", 2)}, "Unknown/NoController", ""},
		"not decided":              {[]gatewayv1.RouteParentStatus{says(stated, "Unknown", "", 3), says(refs[1], "True", "True", 3)}, "Unknown/NoController", ""},
		"of another listener":      {[]gatewayv1.RouteParentStatus{says(stated, "True", "True", 3), says(gatewayv1.ParentReference{Name: "b"}, "True", "True", 3)}, "Unknown/NoController", ""},
		"a refusal before silence": {[]gatewayv1.RouteParentStatus{says(refs[1], "False", "", 3)}, "False/NotAccepted", ""},
	} {
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 3}}
		route.Spec.ParentRefs, route.Status.Parents = refs, c.parents
		got := HTTPRoute(route)
		if is := string(got.Status) + "/" + got.Reason; is != c.want || !strings.Contains(got.Message, c.words) {
			t.Errorf("%s: %s: %s, want %s: %s", name, is, got.Message, c.want, c.words)
		}
	}
}
