package validation

import (
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// ScaleOwners are other objects that set the number of pods of a UnitedDeployment's Deployment.
type ScaleOwners struct {
	// Controller is the controller of the Deployment if its kind is a kind of the operator; nil otherwise.
	Controller *metav1.OwnerReference
	// OldestClaimant is the name of an older UnitedDeployment that names the Deployment too; see func OldestClaimant.
	OldestClaimant string
	// Missing is true if there is no Deployment.
	Missing bool
	// Autoscaler is the name of an autoscaler that targets the Deployment, empty for none.
	Autoscaler string
}

// ScaleConflict returns the reason why a UnitedDeployment must not scale its Deployment, with a remedy; empty without a conflict.
func ScaleConflict(ud *appv1.UnitedDeployment, held ScaleOwners) string {
	name, controller := ud.Spec.DeploymentName, held.Controller
	switch {
	case controller != nil && controller.Kind == "UnitedDeployment" && controller.Name == ud.Name:
		// It has made the Deployment, it or an earlier one of its name, and that counts for more than age.
	case controller != nil:
		return fmt.Sprintf(messageScaledByOwner, name, controller.Kind, controller.Name)
	case held.OldestClaimant != "" && (!held.Missing || !hadDeployment(ud)):
		return fmt.Sprintf(messageScaledByUnitedDeployment, held.OldestClaimant, name)
	}
	if held.Autoscaler != "" {
		return fmt.Sprintf(messageScaledByAutoscaler, held.Autoscaler, name)
	}
	return ""
}

// hadDeployment reports whether a UnitedDeployment has created the Deployment from its template, by the rendering in its status. The name of the
// Deployment cannot change while there is a template.
func hadDeployment(ud *appv1.UnitedDeployment) bool {
	return ud.Spec.Template != nil && ud.Status.Rendering != 0
}

// OldestClaimant returns the name of the oldest of the UnitedDeployments that name the same Deployment as ud and are to stay, empty if
// that is ud itself. Of the same age, the first by name is the older one. The claimants are the metadata of the UnitedDeployments that name
// the Deployment. A thousand of them ask for each other all the time, so none is copied.
func OldestClaimant(ud *metav1.ObjectMeta, claimants iter.Seq[*metav1.ObjectMeta]) string {
	oldest := ud
	for other := range claimants {
		born, first := &other.CreationTimestamp, &oldest.CreationTimestamp
		if other.DeletionTimestamp == nil && (born.Before(first) || born.Equal(first) && other.Name < oldest.Name) {
			oldest = other
		}
	}
	if oldest.Name == ud.Name {
		return ""
	}
	return oldest.Name
}
