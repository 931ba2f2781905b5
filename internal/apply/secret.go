package apply

import (
	"encoding/base64"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withheld stands for words that repeat a value of a Secret.
const withheld = "the reason is not shown, as it repeats a value of the Secret"

// discreet returns an answer of the API server, of which an admission webhook may have written the words, without those
// that repeat a value of a Secret: it is on its way to a condition, an event and the log.
func (p *plan) discreet(err error) error {
	secrets := values(p.child.Desired, p.child.Live)
	var status apierrors.APIStatus
	if len(secrets) == 0 || !errors.As(err, &status) {
		return err
	}
	answer := status.Status()
	found := withhold(&answer.Message, secrets)
	if answer.Details != nil {
		answer.Details = answer.Details.DeepCopy()
		for i := range answer.Details.Causes {
			found = withhold(&answer.Details.Causes[i].Message, secrets) || found
		}
	}
	if !found {
		return err
	}
	return &apierrors.StatusError{ErrStatus: answer}
}

// withhold replaces words that have a value of a Secret in them.
func withhold(words *string, secrets []string) bool {
	for _, secret := range secrets {
		if strings.Contains(*words, secret) {
			*words = withheld
			return true
		}
	}
	return false
}

// values returns the values of those objects that are Secrets, as they are and as a request has them.
func values(objects ...client.Object) []string {
	var all []string
	for _, obj := range objects {
		secret, ok := obj.(*corev1.Secret)
		if !ok || secret == nil {
			continue
		}
		for _, value := range secret.Data {
			if len(value) > 0 {
				all = append(all, string(value), base64.StdEncoding.EncodeToString(value))
			}
		}
	}
	return all
}
