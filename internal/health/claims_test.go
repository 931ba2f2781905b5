package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestMessagesClaimNoPodsThatAreNotThere has Deployments in all states with up to two pods of each sort: a message says that old pods are to be
// removed only while there are such pods, and of earlier pods no more than that they run if there are any. A message with a count would change
// with each crash, see TestStallHasOneText.
func TestMessagesClaimNoPodsThatAreNotThere(t *testing.T) {
	claims := map[string]func(d *appsv1.Deployment) bool{
		" old to be removed": func(d *appsv1.Deployment) bool { return d.Status.Replicas > d.Status.UpdatedReplicas },
	}
	seen := map[string]bool{}
	for wanted := range int32(3) {
		for pods := range int32(3) {
			for updated := range pods + 1 {
				for available := range pods + 1 {
					for _, reason := range []string{"", "ProgressDeadlineExceeded", "NewReplicaSetAvailable"} {
						d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(wanted)}}
						d.Status = appsv1.DeploymentStatus{Replicas: pods, UpdatedReplicas: updated, AvailableReplicas: available}
						d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: reason}}
						message := Deployment(d, nil, time.Time{}).Message
						if strings.Contains(strings.ReplaceAll(message, "Earlier pods, if any,", ""), "arlier pods") {
							t.Errorf("%q claims earlier pods: %s", reason, message)
						}
						for words, holds := range claims {
							says := strings.Contains(message, words)
							seen[fmt.Sprint(words, says)] = true
							if says && !holds(d) {
								t.Errorf("%d wanted, %d pods, %d updated, %d available, %q: %s", wanted, pods, updated, available, reason, message)
							}
						}
					}
				}
			}
		}
	}
	if len(seen) != 2*len(claims) {
		t.Errorf("not each sentence was said and left out: %v", seen)
	}
}
