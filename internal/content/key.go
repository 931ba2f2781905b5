package content

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// KeySecret is the Secret with the key of the sums of Secrets, in the manager's namespace.
	KeySecret = "app-operator-config-key"
	// keyField is the key in that Secret, keyBytes its length.
	keyField = "key"
	keyBytes = 32
)

// Key makes sums of Secrets that cannot be tried without it.
type Key struct {
	// ID identifies the key without a hint at its bytes.
	ID    string
	bytes []byte
}

// secretKey is the key once it was read.
type secretKey struct {
	mu  sync.Mutex
	key Key
}

// SecretKey returns the key for the sums of Secrets, and creates a missing key. Sums of different keys cannot be compared.
func (w *Watch) SecretKey(ctx context.Context) (Key, error) {
	if w.foresight != nil {
		return w.foresight.secretKey(ctx)
	}
	w.key.mu.Lock()
	defer w.key.mu.Unlock()
	if w.key.key.bytes != nil {
		return w.key.key, nil
	}
	if w.opts.OwnNamespace == "" {
		return Key{}, errors.New("the namespace of the manager is not known: set POD_NAMESPACE")
	}
	raw, err := w.readKey(ctx)
	if apierrors.IsNotFound(err) {
		if err = w.createKey(ctx); err == nil || apierrors.IsAlreadyExists(err) {
			raw, err = w.readKey(ctx)
		}
	}
	if err != nil {
		return Key{}, fmt.Errorf("key of the sums of Secrets: %w", err)
	}
	w.key.key = newKey(raw)
	return w.key.key, nil
}

func newKey(raw []byte) Key {
	mac := hmac.New(sha256.New, raw)
	_, _ = mac.Write([]byte("id")) // A hash takes everything.
	return Key{ID: hex.EncodeToString(mac.Sum(nil)[:4]), bytes: raw}
}

func (w *Watch) readKey(ctx context.Context) ([]byte, error) {
	found := &corev1.Secret{}
	if err := w.opts.Live.Get(ctx, client.ObjectKey{Namespace: w.opts.OwnNamespace, Name: KeySecret}, found); err != nil {
		return nil, err
	}
	if raw := found.Data[keyField]; len(raw) >= keyBytes {
		return raw, nil
	}
	return nil, fmt.Errorf("no %[3]s of at least %[4]d bytes in Secret %[1]s/%[2]s; delete the Secret, and the manager creates another one",
		w.opts.OwnNamespace, KeySecret, keyField, keyBytes)
}

func (w *Watch) createKey(ctx context.Context) error {
	raw := make([]byte, keyBytes)
	if _, err := rand.Read(raw); err != nil {
		return err
	}
	return w.opts.Writer.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.opts.OwnNamespace, Name: KeySecret,
			Labels: map[string]string{appv1.LabelManagedBy: appv1.ManagedBy},
		},
		Data: map[string][]byte{keyField: raw},
	}, client.DisableReadYourWritesConsistency)
}
