// Package music gets developer tokens for Apple Music.
// The client's settings: { id: "backend", apiKey: { sha256: "<from new-api-key>" } }
package music

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

const address = "https://tokens.example.com/token"

// Tokens keeps a valid token. Use one for the whole program: concurrent callers share one request.
type Tokens struct {
	mutex sync.Mutex
	held  struct {
		Token                   string
		ExpiresAt, RefreshAfter int64
	}
}

var client = &http.Client{Timeout: 5 * time.Second}

// Token returns a valid token, and an error only without a valid one.
func (tokens *Tokens) Token() (string, error) {
	tokens.mutex.Lock()
	defer tokens.mutex.Unlock()
	now := time.Now().Unix()
	if now < tokens.held.RefreshAfter {
		return tokens.held.Token, nil
	}
	if err := tokens.request(); err != nil {
		if now > tokens.held.ExpiresAt-60 {
			return "", err
		}
		log.Print("No new developer token: ", err)
		tokens.held.RefreshAfter = now + 60 // the token still works: try again in a minute
	}
	return tokens.held.Token, nil
}

func (tokens *Tokens) request() error {
	request, err := http.NewRequest("GET", address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("MUSICKIT_API_KEY"))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, content) // says what is wrong
	}
	return json.Unmarshal(content, &tokens.held)
}
