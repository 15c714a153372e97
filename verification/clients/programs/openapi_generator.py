import postern_client
from steps import KEY, URL, take_steps

configuration = postern_client.Configuration(host=URL, api_key={"keyAuth": KEY}, api_key_prefix={"keyAuth": "ApiKey"})
connection = postern_client.ApiClient(configuration)
findings = postern_client.FindingsApi(connection)
evidence = postern_client.EvidenceApi(connection)


class Client:
    def list(self, limit, cursor=None):
        answer = findings.list_findings_with_http_info(limit=limit, cursor=cursor)
        link = {name.lower(): value for name, value in answer.headers.items()}["link"]
        return answer.status_code, [item.to_dict() for item in answer.data], link

    def create(self, finding):
        body = postern_client.CreateFinding(**finding)
        answer = findings.create_finding_with_http_info(create_finding=body)
        return answer.status_code, str(answer.data.id)

    def upload(self, content):
        answer = evidence.upload_evidence_with_http_info(file_name="a.bin", body=content)
        return answer.status_code, answer.data.sha256

    def read(self, id):
        try:
            findings.get_finding(id)
        except postern_client.ApiException as error:
            return error.status, error.data.code
        return 200, None


take_steps(Client())
