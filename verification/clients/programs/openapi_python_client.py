import io
import json

from generated import AuthenticatedClient
from generated.api.evidence import upload_evidence, upload_evidence_form
from generated.api.findings import create_finding, get_finding, list_findings
from generated.models import CreateFinding
from generated.models import UploadEvidenceFormBody
from generated.types import UNSET, File
from steps import KEY, URL, expect_equal, take_steps

connection = AuthenticatedClient(base_url=URL, token=KEY, prefix="ApiKey")


class Client:
    def list(self, limit, cursor=UNSET):
        answer = list_findings.sync_detailed(client=connection, limit=limit, cursor=cursor)
        return answer.status_code, [item.to_dict() for item in answer.parsed], answer.headers["link"]

    def create(self, finding):
        answer = create_finding.sync_detailed(client=connection, body=CreateFinding.from_dict(finding))
        return answer.status_code, str(answer.parsed.id)

    def upload(self, content):
        file = File(payload=io.BytesIO(content), file_name="a.bin")
        form = upload_evidence_form.sync_detailed(client=connection, body=UploadEvidenceFormBody(file=file))
        expect_equal("receipts of the form", (form.status_code, len(form.parsed)), (201, 1))
        file = File(payload=io.BytesIO(content), file_name="a.bin")
        answer = upload_evidence.sync_detailed(client=connection, file_name="a.bin", body=file)
        return answer.status_code, answer.parsed.sha256

    def read(self, id):
        answer = get_finding.sync_detailed(id, client=connection)
        return answer.status_code, answer.parsed.code


take_steps(Client())
