package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestPasswordOutlivesClaims sets retain to false on a database of one pod: its Secret goes with the CloudManager, unless a claim
// of a pod that was scaled away stays, whose data is of no use without the password.
func TestPasswordOutlivesClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims []string
		stays  bool
	}{
		"claims-of-pods":   {[]string{"datadir-db-0"}, false},
		"leftover-claim":   {[]string{"datadir-db-0", "datadir-db-2"}, true},
		"claim-of-another": {[]string{"datadir-db-0", "datadir-db-x-2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			cm := newCloudManager(ns)
			bringUpTiers(t, cm)
			for _, claim := range c.claims {
				plane.Create(t, namedClaim(ns, claim))
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "dbauth"}}
			plane.Read(t, cm)
			plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(false) })
			plane.Until(t, secret, func() error {
				owned, kept := metav1.IsControlledBy(secret, cm), secret.Annotations[appv1.AnnotationRetainedFor] != ""
				// A Secret that is retained looks as it did before the change, so the database must have been reconciled since.
				plane.Read(t, cm)
				if cm.Status.ObservedGeneration < cm.Generation || owned == c.stays || kept != c.stays {
					return fmt.Errorf("owned by the CloudManager: %t, retained: %t", owned, kept)
				}
				return nil
			})
		})
	}
}
