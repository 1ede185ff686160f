// A client of HTTP/2 that is not ours: Go's net/http, against a server with TLS.
//
// usage: go run http2_client.go URL CERTIFICATE
//
// Prints `ok`, or what is not as it should be, and then exits with 1.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A net only: what is waited for comes within moments, or never.
const patience = 2 * time.Minute

var connections atomic.Int64

func main() {
	url, client := os.Args[1], newClient(os.Args[2])
	steps := []func(*http.Client, string) error{parallel, methods, content, refusals, cancelled, afterwards}
	for _, step := range steps {
		if err := step(client, url); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	// Go opens another connection if all streams of the first are in use. The server allows a hundred.
	if count := connections.Load(); count > 5 {
		fmt.Printf("%d connections\n", count)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func newClient(certificate string) *http.Client {
	pem, err := os.ReadFile(certificate)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		fmt.Println("no certificate:", err)
		os.Exit(1)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	return &http.Client{Transport: transport, Timeout: patience}
}

// exchange sends a request, and checks that it went over HTTP/2.
func exchange(client *http.Client, ctx context.Context, method, url string, body io.Reader) (int, []byte, error) {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			connections.Add(1)
		}
	}}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, url, body)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if response.ProtoMajor != 2 {
		return 0, nil, fmt.Errorf("%s %s: %s", method, url, response.Proto)
	}
	return response.StatusCode, received, nil
}

func expect(client *http.Client, method, url string, body io.Reader, status int) ([]byte, error) {
	got, received, err := exchange(client, context.Background(), method, url, body)
	if err == nil && got != status {
		err = fmt.Errorf("%s %s: status %d instead of %d: %.200s", method, url, got, status, received)
	}
	return received, err
}

func token(received []byte, err error) error {
	if err != nil {
		return err
	}
	var document struct{ Token string }
	if err := json.Unmarshal(received, &document); err != nil || strings.Count(document.Token, ".") != 2 {
		return fmt.Errorf("no token: %v: %.200s", err, received)
	}
	return nil
}

// parallel sends more requests at once than a connection may have streams. The first request opens the connection.
func parallel(client *http.Client, url string) error {
	if err := token(expect(client, "GET", url+"/token", nil, 200)); err != nil {
		return err
	}
	errors := make(chan error, 400)
	var group sync.WaitGroup
	for index := 0; index < 400; index++ {
		group.Add(1)
		go func() {
			defer group.Done()
			errors <- token(expect(client, "GET", url+"/token", nil, 200))
		}()
	}
	group.Wait()
	close(errors)
	for err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func methods(client *http.Client, url string) error {
	if received, err := expect(client, "HEAD", url+"/token", nil, 200); err != nil || len(received) > 0 {
		return fmt.Errorf("HEAD: %v, %d bytes", err, len(received))
	}
	if _, err := expect(client, "OPTIONS", url+"/token", nil, 204); err != nil {
		return err
	}
	_, err := expect(client, "DELETE", url+"/token", nil, 405)
	return err
}

// content sends content with a known length, and content of which only the end is known.
func content(client *http.Client, url string) error {
	settings := `{"ttl": 3600}`
	if err := token(expect(client, "POST", url+"/token", strings.NewReader(settings), 200)); err != nil {
		return err
	}
	unknown := io.MultiReader(strings.NewReader(settings[:5]), strings.NewReader(settings[5:]))
	return token(expect(client, "POST", url+"/token", unknown, 200))
}

func refusals(client *http.Client, url string) error {
	if _, err := expect(client, "GET", url+"/nowhere", nil, 404); err != nil {
		return err
	}
	if _, err := expect(client, "GET", url+"/token?ttl=0", nil, 400); err != nil {
		return err
	}
	_, err := expect(client, "POST", url+"/token", bytes.NewReader(make([]byte, 1_000_000)), 413)
	return err
}

// cancelled resets streams within their content.
func cancelled(client *http.Client, url string) error {
	for index := 0; index < 20; index++ {
		ctx, cancel := context.WithCancel(context.Background())
		reader, writer := io.Pipe()
		go func() {
			writer.Write([]byte(`{"ttl":`))
			cancel()
		}()
		if _, _, err := exchange(client, ctx, "POST", url+"/token", reader); err == nil {
			return fmt.Errorf("a cancelled request had a response")
		}
		writer.Close()
	}
	return nil
}

func afterwards(client *http.Client, url string) error {
	return token(expect(client, "GET", url+"/token", nil, 200))
}
