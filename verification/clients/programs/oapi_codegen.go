package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
)

func check(what string, found, wanted any) {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		fmt.Printf("%s: found %v, wanted %v\n", what, found, wanted)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return value
}

var next = regexp.MustCompile(`[?&]cursor=([^&>]+)[^>]*>; rel="next"`)

func main() {
	ctx := context.Background()
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "ApiKey "+os.Getenv("POSTERN_KEY"))
		return nil
	}
	client := must(NewClientWithResponses(os.Getenv("POSTERN_URL"), WithRequestEditorFn(authorize)))

	limit := 2
	first := must(client.ListFindingsWithResponse(ctx, &ListFindingsParams{Limit: &limit}))
	check("status of the list", first.StatusCode(), 200)
	check("items of the first page", len(*first.JSON200), 2)
	found := next.FindStringSubmatch(first.HTTPResponse.Header.Get("Link"))
	check("parts of the link", len(found), 2)
	cursor := must(url.QueryUnescape(found[1]))
	second := must(client.ListFindingsWithResponse(ctx, &ListFindingsParams{Limit: &limit, Cursor: &cursor}))
	check("items of the second page", len(*second.JSON200), 2)

	finding := CreateFindingJSONRequestBody{Title: "Made by a generated client", Condition: "Seen.", Severity: "low"}
	made := must(client.CreateFindingWithResponse(ctx, nil, finding))
	check("status of the new finding", made.StatusCode(), 201)

	content := make([]byte, 100_000)
	must(rand.Read(content))
	sum := sha256.Sum256(content)
	upload := must(client.UploadEvidenceWithBodyWithResponse(
		ctx, &UploadEvidenceParams{FileName: "a.bin"}, "application/octet-stream", bytes.NewReader(content)))
	check("status of the upload", upload.StatusCode(), 201)
	check("sha256 of the upload", upload.JSON201.Sha256, hex.EncodeToString(sum[:]))

	problem := must(client.GetFindingWithResponse(ctx, "nothing", nil))
	check("status of an unknown id", problem.StatusCode(), 404)
	check("code of the problem", problem.ApplicationproblemJSON404.Code, "not_found")
}
