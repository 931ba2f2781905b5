package database

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// rootUser is the name of the user that the password is for.
const rootUser = "root"

// maxPassword is the longest password that a variable of a container can have, in bytes: Linux takes variables of 128 KiB with their names.
const maxPassword = 100 << 10

// password has the sources of the password of a database: the value that the spec states or names, and the value that the Secret
// has; either may be empty. The database takes its password over when it first starts on an empty volume, and never again. So the
// password is chosen freely only while there is no claim; after that, what the Secret has is the one that counts.
type password struct{ stated, kept string }

// needsEmptyVolumes reports whether the password can be chosen only while the database has no volumes: one that nobody has stated yet,
// or another than the Secret has.
func (p password) needsEmptyVolumes() bool {
	return p.stated == "" && p.kept == "" || p.kept != "" && p.stated != "" && p.stated != p.kept
}

// passwordRefusal returns why the password cannot be chosen while there is a claim. field is where the spec has the password.
func (p password) passwordRefusal(field, secret, claim string) error {
	refusal := &reconciler.StalledError{Reason: appv1.ReasonPasswordLost, RetryAfter: workload.Unwatched}
	refusal.Message = fmt.Sprintf(messagePasswordLost, claim, secret)
	if p.kept != "" {
		refusal.Reason = appv1.ReasonPasswordMismatch
		refusal.Message = fmt.Sprintf(messagePasswordMismatch, field, secret, claim)
	}
	return refusal
}

// choosePassword returns the password, a new one where there is none.
func (p password) choosePassword() string {
	if chosen := cmp.Or(p.stated, p.kept); chosen != "" {
		return chosen
	}
	return rand.Text()
}

// secretChild returns the database's Secret as it should be. It is usable if it is there with that password already, so that pods
// can start with it. While the password is refused, err has the reason, and a usable Secret keeps its values. The rest of the Secret follows the spec, such
// as whether it outlives the CloudManager.
func (db *database) secretChild(ctx context.Context, seen view, w *resource.Workload) (secret apply.Object, usable bool, err error) {
	name := resource.SecretName(db.in.Name)
	live, err := readSecret(ctx, db.r.Live, client.ObjectKey{Namespace: db.cm.Namespace, Name: name})
	if err != nil {
		return apply.Object{}, false, err
	}
	kept := map[string]string{}
	if live != nil {
		for _, key := range []string{resource.SecretUsername, resource.SecretPassword} {
			if value := live.Data[key]; len(value) > 0 {
				kept[key] = string(value)
			}
		}
		usable = kept[resource.SecretPassword] != "" && apply.Taken(db.r.Client.Scheme(), db.cm, live, live, false) == nil
	}
	chosen, err := db.decidePassword(ctx, live, kept[resource.SecretPassword])
	switch {
	case err != nil && !usable:
		return apply.Object{}, false, err
	case err != nil:
		return secretWith(seen, w, live, kept), true, err
	}
	usable = usable && chosen == kept[resource.SecretPassword] && kept[resource.SecretUsername] != ""
	return secretWith(seen, w, live, map[string]string{resource.SecretUsername: rootUser, resource.SecretPassword: chosen}), usable, nil
}

// decidePassword returns the password of the database, by the spec and by the one that the live Secret has, which may be empty.
func (db *database) decidePassword(ctx context.Context, live *corev1.Secret, kept string) (string, error) {
	stated, err := db.statedPassword(ctx)
	if err != nil {
		return "", err
	}
	p := password{stated: stated, kept: kept}
	if p.needsEmptyVolumes() {
		// The API server is asked for them, as a view of some time ago must not cost the data.
		claims, err := db.liveClaims(ctx)
		if err == nil && len(claims) > 0 {
			err = db.refusePassword(p, live, claims)
		}
		if err != nil {
			return "", err
		}
	}
	return p.choosePassword(), nil
}

// refusePassword returns why a password cannot be chosen while there are claims. A Secret or claims of others are the reason before the password is: the
// advice about a password would cost their data.
func (db *database) refusePassword(p password, live *corev1.Secret, claims []corev1.PersistentVolumeClaim) error {
	if live != nil {
		if taken := db.refuseTaken(live); taken != nil {
			return taken
		}
	}
	var taken error
	for i := range claims {
		of := db.refuseTaken(&claims[i])
		if of == nil {
			return p.passwordRefusal(passwordField(db.cm), resource.SecretName(db.in.Name), claims[i].Name)
		}
		taken = cmp.Or(taken, of)
	}
	return taken
}

// refuseTaken returns the error of an object that is neither the database's nor to be adopted, nil for any other object, and while the object is being deleted.
func (db *database) refuseTaken(live client.Object) error {
	var stalled *reconciler.StalledError
	if err := apply.Taken(db.r.Client.Scheme(), db.cm, live, live, workload.NewRequest(db.in).Policy.Adopt); errors.As(err, &stalled) {
		return stalled
	}
	return nil
}

// secretWith returns the database's Secret with values. It outlives the CloudManager if the volumes, or some of them, do.
func secretWith(seen view, w *resource.Workload, live *corev1.Secret, values map[string]string) apply.Object {
	secretOf := *w
	secretOf.Retain = w.Retain || seen.leavesClaims(w)
	c := workload.NewChild(resource.Secret(&secretOf, values), live)
	c.Retained = secretOf.Retain
	return c
}

// passwordField is where the spec has the password.
func passwordField(cm *appv1.CloudManager) string {
	if cm.Spec.DB.RootPassSecretRef != nil {
		return messagePasswordOfReference
	}
	return "spec.db.rootPass"
}

// statedPassword returns the password that the spec states or names, empty if it does neither.
func (db *database) statedPassword(ctx context.Context) (string, error) {
	ref := db.cm.Spec.DB.RootPassSecretRef
	if ref == nil {
		return db.cm.Spec.DB.RootPass, nil
	}
	key := ref.Key
	if key == "" {
		key = resource.SecretPassword
	}
	secret, err := readSecret(ctx, db.r.Live, client.ObjectKey{Namespace: db.cm.Namespace, Name: ref.Name})
	if err != nil {
		return "", err
	}
	missing := messageSecretMissing
	if secret != nil {
		switch password := secret.Data[key]; {
		case len(password) == 0:
			missing = fmt.Sprintf(messageSecretKeyMissing, key)
		case len(password) > maxPassword || bytes.IndexByte(password, 0) >= 0:
			missing = fmt.Sprintf(messagePasswordUnusable, key)
		default:
			return string(password), nil
		}
	}
	err = fmt.Errorf("secret %s %s", ref.Name, missing)
	return "", &reconciler.FailedError{
		Reason: appv1.ReasonSecretNotFound, Err: err,
		Message: fmt.Sprintf(messagePasswordSecretMissing, ref.Name, missing),
	}
}

// readSecret reads a Secret from the API server, nil if there is none. Secrets are never in the cache.
func readSecret(ctx context.Context, live client.Reader, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	switch err := live.Get(ctx, key, secret); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, &reconciler.FailedError{
			Reason: appv1.ReasonForbidden, Err: err,
			Message: fmt.Sprintf(messageSecretForbidden, key.Name, message.Quote(err.Error())),
		}
	case err != nil:
		return nil, &reconciler.FailedError{
			Reason: appv1.ReasonApplyFailed, Err: err,
			Message: fmt.Sprintf(messageSecretUnreadable, key.Name),
		}
	}
	return secret, nil
}

// PasswordCondition is the condition for whether the spec has the password in clear text. Its generation is the generation of the spec for
// which the Secret was last found, or made, as it should be: the present one if checked is true. name is the database's.
func PasswordCondition(obj *appv1.CloudManager, name string, checked bool) metav1.Condition {
	c := metav1.Condition{
		Type: appv1.ConditionPasswordInClearText, Status: metav1.ConditionFalse, Reason: appv1.ReasonPasswordInSecret,
		Message: fmt.Sprintf(messagePasswordInSecret, resource.SecretName(name)),
	}
	if obj.Spec.DB.RootPass != "" {
		c.Status, c.Reason = metav1.ConditionTrue, appv1.ReasonPasswordInSpec
		c.Message = messagePasswordInSpec
	}
	if was := meta.FindStatusCondition(obj.Status.Conditions, c.Type); was != nil {
		c.ObservedGeneration = was.ObservedGeneration
	}
	if checked {
		c.ObservedGeneration = obj.Generation
	}
	if c.Status == metav1.ConditionFalse && c.ObservedGeneration != obj.Generation {
		c.Message = messagePasswordNotInSpec
	}
	return c
}
