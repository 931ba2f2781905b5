package controllers

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// rootUser is the name of the user that the password is for.
const rootUser = "root"

// secretChild returns the database's Secret as it should be. The database takes its password over when it first starts on an
// empty volume, and never again. So the password is chosen freely only while there is no claim; after that, what the Secret
// has is the one that counts. It is usable if it is there with that password already, so that pods can start with it.
func (db *database) secretChild(ctx context.Context, w *resource.Workload) (secret apply.Child, usable bool, err error) {
	name := resource.SecretName(db.name)
	live, err := db.r.readSecret(ctx, client.ObjectKey{Namespace: db.cm.Namespace, Name: name})
	if err != nil {
		return apply.Child{}, false, err
	}
	kept := ""
	if live != nil {
		kept = string(live.Data[resource.SecretPassword])
		usable = kept != "" && apply.Taken(db.r.Client.Scheme(), db.cm, live, false) == nil
	}
	stated, err := db.statedPassword(ctx)
	if err != nil {
		return apply.Child{}, usable, err
	}
	password := stated
	if stated == "" {
		password = kept
	}
	if password == "" || kept != "" && password != kept {
		if err := db.checkPasswordChange(ctx, name, kept != ""); err != nil {
			return apply.Child{}, usable, err
		}
	}
	if password == "" {
		password = rand.Text()
	}
	secretOf := *w
	secretOf.Retain = w.Retain || db.leavesClaims(w)
	c := applyChild(resource.Secret(&secretOf, map[string]string{resource.SecretUsername: rootUser, resource.SecretPassword: password}), live)
	c.Retained = secretOf.Retain
	return c, usable && password == kept && len(live.Data[resource.SecretUsername]) > 0, nil
}

// leavesClaims reports whether a claim of the database outlives its StatefulSet although the spec does not retain it: one of a pod
// that was scaled away while the spec did. Its data is of no use without the password.
func (db *database) leavesClaims(w *resource.Workload) bool {
	had := int32(0)
	if db.set != nil {
		had = ptr.Deref(db.set.Spec.Replicas, 1)
	}
	pods := ptr.Deref(w.Replicas, max(had, 1))
	return slices.ContainsFunc(db.claims, func(claim corev1.PersistentVolumeClaim) bool {
		ordinal, ok := resource.ClaimOrdinal(db.name, claim.Name)
		return ok && ordinal >= pods && (db.set == nil || !goesWith(&claim, db.set))
	})
}

// checkPasswordChange returns why the password cannot be chosen again, nil if it can. Claims that are there may hold a database that
// has one; the API server is asked for them, as a view of some time ago must not cost the data.
func (db *database) checkPasswordChange(ctx context.Context, secret string, kept bool) error {
	claims, err := db.liveClaims(ctx)
	if err != nil || len(claims) == 0 {
		return err
	}
	if kept {
		return &reconciler.StalledError{
			Reason: appv1.ReasonPasswordMismatch, RetryAfter: unwatched,
			Message: fmt.Sprintf(messagePasswordMismatch,
				db.passwordField(), secret, claims[0].Name),
		}
	}
	return &reconciler.StalledError{
		Reason: appv1.ReasonPasswordLost, RetryAfter: unwatched,
		Message: fmt.Sprintf(messagePasswordLost,
			claims[0].Name, secret),
	}
}

// passwordField is where the spec has the password.
func (db *database) passwordField() string {
	if db.cm.Spec.DB.RootPassSecretRef != nil {
		return "The password in the Secret of spec.db.rootPassSecretRef"
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
	secret, err := db.r.readSecret(ctx, client.ObjectKey{Namespace: db.cm.Namespace, Name: ref.Name})
	if err != nil {
		return "", err
	}
	missing := "does not exist"
	if secret != nil {
		if password := secret.Data[key]; len(password) > 0 {
			return string(password), nil
		}
		missing = fmt.Sprintf("has no value for the key %q", key)
	}
	err = fmt.Errorf("secret %s %s", ref.Name, missing)
	return "", &reconciler.FailedError{
		Reason: appv1.ReasonSecretNotFound, Err: err,
		Message: fmt.Sprintf(messagePasswordSecretMissing, ref.Name, missing),
	}
}

// passwordCondition is the condition that says whether the password stands in the spec. Its generation is that of the spec for
// which the Secret was last found, or made, as it should be.
func (db *database) passwordCondition(obj *appv1.CloudManager) metav1.Condition {
	c := metav1.Condition{
		Type: appv1.ConditionPasswordInClearText, Status: metav1.ConditionFalse, Reason: appv1.ReasonPasswordInSecret,
		Message: "Secret " + resource.SecretName(db.name) + " has the database's password",
	}
	if db.cm.Spec.DB.RootPass != "" {
		c.Status, c.Reason = metav1.ConditionTrue, appv1.ReasonPasswordInSpec
		c.Message = messagePasswordInSpec
	}
	if was := meta.FindStatusCondition(obj.Status.Conditions, c.Type); was != nil {
		c.ObservedGeneration = was.ObservedGeneration
	}
	if db.secretChecked {
		c.ObservedGeneration = obj.Generation
	}
	return c
}
