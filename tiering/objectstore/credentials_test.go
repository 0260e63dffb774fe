package objectstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTI20CredentialsAreRenewedBeforeTheyEnd has credentials of a minute, and a service that gives none for a while.
func TestTI20CredentialsAreRenewedBeforeTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fetched, failed int
		var away bool
		cache := newCredentialCache(func(context.Context) (credentials, error) {
			if away {
				return credentials{}, errors.New("the metadata service is away")
			}
			fetched++
			return credentials{id: fmt.Sprint("id", fetched), expires: time.Now().Add(time.Minute)}, nil
		}, func(_ time.Time, err error) {
			if err != nil {
				failed++
			}
		})
		expect := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			if got, err := cache.get(t.Context()); err != nil || got.id != want {
				t.Errorf("after %v: %q, %v; want %s", after, got.id, err, want)
			}
		}
		expect(0, "id1")
		expect(47*time.Second, "id1")
		expect(2*time.Second, "id2") // a fifth of their life before their end
		away = true
		expect(50*time.Second, "id2") // they are still good, and it is tried again
		expect(5*time.Second, "id2")
		expect(4*time.Second, "id2")
		if failed != 1 {
			t.Errorf("it was tried %d times within ten seconds", failed)
		}
		time.Sleep(3 * time.Minute)
		var failure *credentialError
		if _, err := cache.get(t.Context()); !errors.As(err, &failure) || !strings.Contains(err.Error(), "is away") {
			t.Errorf("with none that are good: %v", err)
		}
		away = false
		expect(0, "id3")
		cache.forget()
		expect(0, "id4")
	})
}

// Whoever can use the old credentials does not wait for new ones, which come once for all.
func TestCredentialsAreFetchedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetched := 0
		slow := make(chan struct{})
		cache := newCredentialCache(func(context.Context) (credentials, error) {
			fetched++
			<-slow
			return credentials{id: fmt.Sprint("id", fetched), expires: time.Now().Add(time.Hour)}, nil
		}, func(time.Time, error) {})
		got := make(chan string, 10)
		ask := func() {
			found, err := cache.get(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- found.id
		}
		for range 5 {
			go ask()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cache.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who cannot wait: %v", err)
		}
		slow <- struct{}{}
		synctest.Wait()
		if fetched != 1 || len(got) != 5 {
			t.Fatalf("fetched %d times for %d", fetched, len(got))
		}
		time.Sleep(56 * time.Minute)
		for range 5 {
			go ask()
		}
		synctest.Wait()
		if fetched != 2 || len(got) != 9 {
			t.Errorf("fetched %d times; %d did not wait", fetched, len(got)-5)
		}
		close(slow)
		synctest.Wait()
		if len(got) != 10 {
			t.Errorf("%d have an answer", len(got))
		}
	})
}

func TestMinioCredentialsComeFromWhereItsToolsLook(t *testing.T) {
	dir := t.TempDir()
	mc, awsFile := filepath.Join(dir, "config.json"), filepath.Join(dir, "credentials")
	write := func(name, content string) {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(mc, `{"version":"10","aliases":{"mine":{"url":"http://store","accessKey":"from mc","secretKey":"s","api":"S3v4"}}}`)
	write(awsFile, "[default]\naws_access_key_id = from aws\naws_secret_access_key = s\n")
	for _, test := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"MinIO's environment first", map[string]string{"MINIO_ROOT_USER": "root", "MINIO_ROOT_PASSWORD": "s",
			"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s"}, "root"},
		{"then Amazon's", map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s",
			"MINIO_SHARED_CREDENTIALS_FILE": mc, "MINIO_ALIAS": "mine"}, "id"},
		{"then its file", map[string]string{"MINIO_SHARED_CREDENTIALS_FILE": mc, "MINIO_ALIAS": "mine",
			"AWS_SHARED_CREDENTIALS_FILE": awsFile}, "from mc"},
		{"then Amazon's file", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": awsFile}, "from aws"},
		{"then a role, if there may be one", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			setCredentials(t)
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			got, err := minioCredentials(newStandIn(t))(t.Context())
			if got.id != test.want || (err != nil) != (test.want == "") || err != nil && !errors.Is(err, errNoCredentials) {
				t.Errorf("%q, %v", got.id, err)
			}
		})
	}
}
