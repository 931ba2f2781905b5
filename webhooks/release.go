package webhooks

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// canarySteps warns of a new value of an annotation that promotes or aborts a canary, if no canary in the status has this UID. The resource
// alone is read.
func canarySteps(obj, old client.Object) []string {
	var canary *appv1.CanaryStatus
	switch obj := obj.(type) {
	case *appv1.App:
		canary = obj.Status.Canary
	case *appv1.ModelBox:
		canary = obj.Status.Canary
	default:
		return nil
	}
	var said []string
	for _, name := range []string{appv1.AnnotationPromote, appv1.AnnotationAbort} {
		uid := obj.GetAnnotations()[name]
		switch {
		case uid == "" || uid == old.GetAnnotations()[name]:
		case canary == nil:
			said = append(said, fmt.Sprintf(messageNoCanary, name))
		case string(canary.UID) != uid:
			said = append(said, fmt.Sprintf(messageOtherCanary, name, canary.Name, canary.UID))
		}
	}
	return said
}
