<?php
// The client's settings: { id: "backend", apiKey: { sha256: "<from new-api-key>" } }

/** Keeps the token, because each request is a new process: in a folder of the app that no browser can reach. */
const TOKEN_FILE = '/var/lib/my-app/musickit-token.json';

/** Returns a valid token. Throws only without a valid one. */
function developer_token(): string {
    umask(0077);
    $file = fopen(TOKEN_FILE, 'c+');
    flock($file, LOCK_EX);  // concurrent requests wait for one token
    $held = json_decode(stream_get_contents($file), true) ?? ['refreshAfter' => 0, 'expiresAt' => 0];
    if (time() >= $held['refreshAfter']) {
        try {
            $held = request_developer_token();
        } catch (RuntimeException $error) {
            if (time() > $held['expiresAt'] - 60) throw $error;
            error_log('No new developer token: ' . $error->getMessage());
            $held['refreshAfter'] = time() + 60;  // the token still works: try again in a minute
        }
        rewind($file);
        ftruncate($file, 0);
        fwrite($file, json_encode($held));
    }
    fclose($file);
    return $held['token'];
}

function request_developer_token(): array {
    $context = stream_context_create(['http' => [
        'header' => 'Authorization: Bearer ' . getenv('MUSICKIT_API_KEY'), 'timeout' => 5, 'ignore_errors' => true,
    ]]);
    $content = @file_get_contents('https://tokens.example.com/token', false, $context);
    if ($content === false) throw new RuntimeException(error_get_last()['message']);
    $document = json_decode($content, true);
    if (!isset($document['token'])) throw new RuntimeException($content);  // says what is wrong
    return $document;
}
