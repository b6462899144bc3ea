/* schemas.h - the forms of bodies and answers, for the OpenAPI document. */
#ifndef HW_GATEWAY_SCHEMAS_H
#define HW_GATEWAY_SCHEMAS_H

#include "base/buf.h"

/* "Name":{...},... */
void gw_schemas_put(hw_buf *out);

#endif
